// The page follows what happens: on news it fetches itself and shows the new content.
const main = document.querySelector("main");
const state = document.querySelector("#state");
const events = new EventSource(document.body.dataset.root + "events");
events.onopen = () => { state.textContent = "live"; };
events.onerror = () => { state.textContent = "not connected"; };
events.onmessage = async () => {
  const open = [...main.querySelectorAll("details[open]")].map((d) => d.id);
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  main.replaceChildren(...page.querySelector("main").childNodes);
  open.forEach((id) => { const d = document.getElementById(id); if (d) d.open = true; });
};
