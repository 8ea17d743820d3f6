// Pages without anything of their own to do.
import { closeMenus, localTimes } from "./common.js";

document.documentElement.classList.add("js");
closeMenus();
localTimes(document);
