// The page follows what happens: on news it fetches itself and shows the new content. What was
// opened, closed, scrolled and focused stays so.
const main = document.querySelector("main");
const state = document.querySelector("#state");
let shown = main.innerHTML;
const toggled = new Map(); // by id: whether the reader has opened or closed it
main.addEventListener("click", (click) => {
  const d = click.target.closest("summary")?.parentElement;
  if (d) toggled.set(d.id, !d.open);
});
const scrolled = () => [...main.querySelectorAll(".wide, pre")];
const show = (text, live) => { state.textContent = text; state.classList.toggle("live", live); };
const events = new EventSource(document.body.dataset.root + "events");
events.onopen = () => show("live", true);
events.onerror = () => show("not connected", false);
events.onmessage = async () => {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (page.innerHTML === shown) return;
  shown = page.innerHTML;
  const at = scrolled().map((e) => [e.scrollLeft, e.scrollTop]);
  const focused = main.contains(document.activeElement) && document.activeElement.getAttribute("href");
  main.replaceChildren(...page.childNodes);
  main.querySelectorAll("details").forEach((d) => { if (toggled.has(d.id)) d.open = toggled.get(d.id); });
  scrolled().forEach((e, i) => { if (at[i]) [e.scrollLeft, e.scrollTop] = at[i]; });
  if (focused) main.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
};
