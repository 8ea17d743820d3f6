// The search page: results while typing, an address that keeps step, and keys.
import { closeMenus, localTimes } from "./common.js";

const form = document.querySelector("form.search");
const box = form.elements.query;
const results = document.getElementById("h-results");
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
let tab = form.elements.tab?.value ?? "";
let running = null;
let timer = null;
let settled = true;
let settling = null;

// Whatever is set, as a query string; the order is the form's.
function asked() {
  const given = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (name !== "tab" && value.trim()) given.append(name, value);
  }
  if (tab) given.set("tab", tab);
  return given;
}

// One entry of the browser's history for each burst of typing, and for every other change.
function keepAddress(given, { typing }) {
  const text = given.toString();
  const address = text ? `${form.getAttribute("action").split("?")[0]}?${text}` : form.getAttribute("action");
  if (new URL(address, location.href).href === location.href) return;
  if (typing && !settled) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  settled = !typing;
  clearTimeout(settling);
  if (typing) settling = setTimeout(() => { settled = true; }, 2000);
  document.title = given.get("query") ? `${given.get("query")} - OpenCode history` : "OpenCode history";
}

async function show(given, { limit } = {}) {
  clearTimeout(timer);
  running?.abort();
  const mine = new AbortController();
  running = mine;
  results.setAttribute("aria-busy", "true");
  const url = new URL(form.dataset.fragment, location.href);
  for (const [name, value] of given) url.searchParams.set(name, value);
  if (zone) url.searchParams.set("timezone", zone);
  if (limit) url.searchParams.set("limit", limit);
  try {
    const response = await fetch(url, { signal: mine.signal });
    const html = await response.text();
    if (running !== mine) return;
    if (response.redirected || !response.headers.get("content-type")?.startsWith("text/html")) {
      throw new Error("no results");
    }
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const main = holder.content.querySelector("main");
    results.replaceChildren(...(main ? main.childNodes : holder.content.childNodes));
    localTimes(results);
  } catch (error) {
    if (error.name === "AbortError") return;
    const problem = document.createElement("p");
    problem.className = "problem";
    problem.setAttribute("role", "alert");
    problem.textContent = "The search could not be made: is the server still running?";
    results.replaceChildren(problem);
  } finally {
    if (running === mine) {
      running = null;
      results.setAttribute("aria-busy", "false");
    }
  }
}

function changed({ typing = false } = {}) {
  const given = asked();
  keepAddress(given, { typing });
  markSet();
  return show(given);
}

function markSet() {
  for (const control of form.querySelectorAll(".filter select")) {
    control.classList.toggle("set", control.value !== "");
  }
  const controls = [...form.querySelectorAll(".filter select, .filter input")];
  const count = controls.filter((control) => control.value !== "").length;
  document.getElementById("h-set").textContent = count ? `${count} set` : "";
}

// A word of one or two letters and an open quote are not finished yet, and no mistakes.
function isUnfinished(text) {
  return (text.match(/"/g) ?? []).length % 2 === 1 || /(^|\s)-?(?!")\S{1,2}$/.test(text);
}

box.addEventListener("input", () => {
  clearTimeout(timer);
  running?.abort();
  if (isUnfinished(box.value)) return;
  timer = setTimeout(() => changed({ typing: true }), 180);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  changed();
});
form.addEventListener("change", (event) => {
  if (event.target === box) return;
  // Days that were picked go before a preset, and the page should not show both.
  if (event.target.name === "date" && event.target.value) {
    form.elements.from.value = "";
    form.elements.to.value = "";
  } else if ((event.target.name === "from" || event.target.name === "to") && event.target.value) {
    form.elements.date.value = "";
  }
  changed();
});
form.querySelector(".clear").addEventListener("click", (event) => {
  if (event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  for (const control of form.querySelectorAll(".filter select, .filter input")) control.value = "";
  changed();
});

results.addEventListener("click", (event) => {
  if (event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const chosen = event.target.closest("a[data-tab]");
  const more = event.target.closest("a[data-more]");
  if (chosen) {
    event.preventDefault();
    tab = chosen.dataset.tab;
    changed().then(() => results.querySelector(".tab[aria-current]")?.focus());
  } else if (more) {
    event.preventDefault();
    const count = results.querySelectorAll(".result").length;
    const limit = new URL(more.href).searchParams.get("limit");
    show(asked(), { limit }).then(() => results.querySelectorAll(".result")[count]?.focus());
  }
});

addEventListener("popstate", () => {
  const given = new URLSearchParams(location.search);
  for (const control of form.elements) {
    if (!control.name || control.name === "database") continue;
    const value = given.get(control.name) ?? "";
    if (control.tagName === "SELECT" && ![...control.options].some((o) => o.value === value)) {
      control.add(new Option(value, value));
    }
    control.value = value;
  }
  tab = given.get("tab") ?? "";
  settled = true;
  markSet();
  show(asked());
});

// --- Keys ------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest?.("input:not(#h-query), select, textarea");
  if (event.key === "/" && event.target !== box && !typing) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape" && !typing) {
    if (event.target === box && box.value) {
      event.preventDefault();
      box.value = "";
      changed();
    } else {
      box.focus();
    }
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !typing) {
    const links = [...results.querySelectorAll("a.result")];
    const at = links.indexOf(document.activeElement);
    if (event.target !== box && at < 0) return;
    event.preventDefault();
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    if (next < 0) box.focus();
    else links[Math.min(next, links.length - 1)]?.focus();
  }
});

closeMenus();
localTimes(results);
// Days in the list are the server's until this browser's calendar is known to differ.
if (Number(form.dataset.offset) !== -new Date().getTimezoneOffset()) show(asked());
