// What all pages share: times in the reader's own zone, copying, the menu.

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const when = new Date(time.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    const two = (n) => String(n).padStart(2, "0");
    // As long as what the server wrote, so that nothing moves.
    const clock = `${two(when.getHours())}:${two(when.getMinutes())}`;
    const year = String(when.getFullYear()).padStart(4, "0");
    const day = `${year}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
    time.textContent = time.className === "clock" ? clock : `${day} ${clock}`;
    time.title = when.toString();
  }
}

export async function copyText(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Without a secure context or the permission there is no clipboard; say so.
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

export function closeMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
}
