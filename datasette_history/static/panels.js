// Runs right behind the panels, before anything below them is drawn: open where there is
// room for them, folded on a phone. Without scripts they stay folded.
document.documentElement.classList.add("js");
if (matchMedia("(min-width: 60.01rem)").matches) {
  for (const panel of document.querySelectorAll("details.panel:not(.long)")) panel.open = true;
}
