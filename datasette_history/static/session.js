// A session's page: more messages while scrolling, jumps to any message, finding, copying.
import { closeMenus, copyText, localTimes } from "./common.js";

const conversation = document.querySelector(".conversation");
const list = document.getElementById("h-messages");
const notice = document.querySelector(".notice");
const written = list.querySelector(".window").dataset.written;
list.querySelector(".window").dataset.first = "";
const outline = [...document.querySelectorAll(".outline a")];
let jumping = null;

function address(base, values) {
  const url = new URL(base, location.href);
  for (const [key, value] of Object.entries(values)) url.searchParams.set(key, value);
  return url;
}

// One fragment of messages; a session that was written anew since must not be mixed.
async function fetchWindow(values, signal) {
  const response = await fetch(address(conversation.dataset.fragment, values), { signal });
  if (!response.ok) throw new Error(`${response.status}`);
  const holder = document.createElement("template");
  holder.innerHTML = await response.text();
  const piece = holder.content.querySelector(".window");
  if (!piece) throw new Error("no messages");
  if (piece.dataset.written !== written) {
    notice.hidden = false;
    return null;
  }
  localTimes(piece);
  return piece;
}

// --- Scrolling -----------------------------------------------------------------------------

function edge(name) {
  return conversation.querySelector(`.turn-page.${name}`);
}

function setEdge(name, seq) {
  let place = edge(name);
  if (seq === undefined) {
    place?.remove();
    return;
  }
  if (!place) {
    place = document.createElement("p");
    place.className = `turn-page ${name}`;
    const link = document.createElement("a");
    link.textContent = name === "earlier" ? "Earlier messages" : "Later messages";
    place.append(link);
    if (name === "earlier") list.before(place);
    else list.after(place);
  }
  // Observing anew tells where the edge is now: the observer alone reports only changes, and
  // would miss that somebody scrolled on to it in the meantime.
  watchEdges.unobserve(place);
  watchEdges.observe(place);
  place.firstElementChild.href = address(
    conversation.dataset.session,
    name === "earlier" ? { before: seq } : { from: seq },
  );
}

const loading = new Set();

async function extend(name) {
  const windows = list.querySelectorAll(".window");
  const at = name === "earlier" ? windows[0] : windows[windows.length - 1];
  const seq = at.dataset[name];
  if (seq === undefined || loading.has(name) || jumping) return;
  loading.add(name);
  try {
    const piece = await fetchWindow(name === "earlier" ? { before: seq } : { from: seq });
    if (!piece || !at.isConnected) return;
    if (name === "earlier") {
      // Not every browser keeps what is read where it is, and it must not be done twice.
      const root = document.documentElement;
      root.style.overflowAnchor = "none";
      const anchor = at.firstElementChild;
      const before = anchor.getBoundingClientRect().top;
      list.prepend(piece);
      scrollBy(0, anchor.getBoundingClientRect().top - before);
      requestAnimationFrame(() => { root.style.overflowAnchor = ""; });
    } else {
      list.append(piece);
    }
    setEdge(name, piece.dataset[name]);
    watchPrompts(piece);
    paint();
  } catch {
    const link = edge(name)?.firstElementChild;
    if (link) link.textContent = "Could not be loaded: open that page";
  } finally {
    loading.delete(name);
  }
}

const watchEdges = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) extend(entry.target.classList.contains("earlier") ? "earlier" : "later");
    }
  },
  { rootMargin: "1500px 0px" },
);

// --- Jumping -------------------------------------------------------------------------------

function messageOf(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return "";
  }
}

// Messages around it get their real heights only once they are near the screen, so the
// place is looked at again in the next frames, unless something else is the goal by then.
let goal = null;

function goTo(element, block = "start", frames = 5) {
  goal = element;
  element.scrollIntoView({ block });
  if (!frames) return;
  requestAnimationFrame(() => {
    if (goal === element) goTo(element, block, frames - 1);
  });
}

async function jump(id, { focus = true } = {}) {
  let message = document.getElementById(id);
  if (!message?.classList.contains("message")) {
    jumping?.abort();
    const mine = new AbortController();
    jumping = mine;
    try {
      const piece = await fetchWindow({ at: id }, mine.signal);
      if (!piece) return false;
      list.replaceChildren(piece);
      setEdge("earlier", piece.dataset.earlier);
      setEdge("later", piece.dataset.later);
      watchPrompts(piece);
      paint();
    } catch (error) {
      if (error.name !== "AbortError") return false;
      return true;
    } finally {
      if (jumping === mine) jumping = null;
    }
    message = document.getElementById(id);
    if (!message) return false;
  }
  for (const other of list.querySelectorAll(".here")) other.classList.remove("here");
  message.classList.add("here");
  goTo(message);
  if (focus) message.focus({ preventScroll: true });
  return true;
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[href*='#']");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(link.href);
  const own = new URL(conversation.dataset.session, location.href);
  if (url.pathname !== own.pathname || !url.hash) return;
  const id = messageOf(url.hash);
  event.preventDefault();
  if (await jump(id)) {
    history.pushState(null, "", `${own.pathname}${own.search}${url.hash}`);
    // Going back to it jumps to the message; where it stood on the screen means nothing.
    history.scrollRestoration = "manual";
    if (link.closest("#h-found")) reveal(document.getElementById(id));
  } else {
    location.assign(link.href);
  }
});

addEventListener("popstate", () => {
  if (location.hash) jump(messageOf(location.hash), { focus: false });
  else if (!list.querySelector(".window[data-first]")) location.reload();
});

// --- The prompt that is being read -----------------------------------------------------------

const visible = new Set();
const watchMessages = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) visible.add(entry.target);
    else visible.delete(entry.target);
  }
  let seq = Infinity;
  for (const message of visible) {
    if (!message.isConnected) visible.delete(message);
    else seq = Math.min(seq, Number(message.dataset.seq));
  }
  if (seq === Infinity) return;
  let current = null;
  for (const link of outline) {
    const active = Number(link.dataset.seq) <= seq ? link : null;
    if (active) current = active;
  }
  current ??= outline[0] ?? null;
  for (const link of outline) {
    if (link === current) link.setAttribute("aria-current", "location");
    else link.removeAttribute("aria-current");
  }
});

function watchPrompts(root) {
  for (const message of root.querySelectorAll(".message")) watchMessages.observe(message);
}

// --- Finding -------------------------------------------------------------------------------

const form = document.querySelector("form.find");
const box = form.elements.find;
const found = document.getElementById("h-found");
let finding = null;
let timer = null;

async function findNow() {
  finding?.abort();
  finding = new AbortController();
  const text = box.value;
  try {
    const response = await fetch(address(form.dataset.fragment, { find: text }), {
      signal: finding.signal,
    });
    if (!response.ok) throw new Error(`${response.status}`);
    found.innerHTML = await response.text();
    localTimes(found);
  } catch (error) {
    if (error.name === "AbortError") return;
    found.textContent = "The search failed; try again.";
  }
  paint();
}

box.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(findNow, 200);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  findNow().then(() => found.querySelector("a")?.click());
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && box.value) {
    event.preventDefault();
    box.value = "";
    findNow();
  } else if (event.key === "ArrowDown") {
    event.preventDefault();
    found.querySelector("a")?.focus();
  }
});
found.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement) + step;
  (at < 0 ? box : links[Math.min(at, links.length - 1)]).focus();
});

// Every occurrence in a message's text, as ranges; folding that changes lengths is left out.
function ranges(message, text) {
  const result = [];
  const wanted = text.toLowerCase();
  const walker = document.createTreeWalker(message.querySelector(".blocks"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const folded = node.data.toLowerCase();
    if (folded.length !== node.data.length) continue;
    for (let at = folded.indexOf(wanted); at >= 0; at = folded.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      result.push(range);
    }
  }
  return result;
}

function paint() {
  if (!CSS.highlights) return;
  CSS.highlights.delete("found");
  const text = box.value;
  if (text.length < 2) return;
  const all = [...list.querySelectorAll(".message")].flatMap((message) => ranges(message, text));
  if (all.length) CSS.highlights.set("found", new Highlight(...all));
}

// Unfolds what hides the first occurrence, and goes there.
function reveal(message) {
  if (!message || box.value.length < 2) return;
  const first = ranges(message, box.value)[0];
  if (!first) return;
  for (let at = first.startContainer.parentElement; at !== message; at = at.parentElement) {
    if (at.tagName === "DETAILS") at.open = true;
  }
  goTo(first.startContainer.parentElement, "center");
}

// --- Texts that are shown in part, and copying ------------------------------------------------

list.addEventListener("click", async (event) => {
  const button = event.target.closest(".message .copy");
  if (button) {
    const message = button.closest(".message").id;
    const response = await fetch(address(conversation.dataset.export, { message }));
    if (response.ok) copyText(await response.text(), button);
    return;
  }
  const link = event.target.closest("a.whole");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const response = await fetch(link.href);
  if (!response.ok) {
    location.assign(link.href);
    return;
  }
  const excerpt = link.closest(".excerpt");
  excerpt.querySelector("pre").textContent = await response.text();
  link.closest(".more").remove();
  paint();
});

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", () => copyText(button.dataset.copy, button));
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  event.preventDefault();
  box.focus();
  box.select();
});

// Printing shows what is folded, too.
addEventListener("beforeprint", () => {
  for (const details of list.querySelectorAll("details:not([open])")) details.open = true;
});

closeMenus();
localTimes(document.querySelector("main"));
watchPrompts(list);
for (const place of document.querySelectorAll(".turn-page")) watchEdges.observe(place);
paint();
if (location.hash) jump(messageOf(location.hash));
