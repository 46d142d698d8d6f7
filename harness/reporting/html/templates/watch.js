// Shows the newest page in the place of the one before it, where the reader was in that: scrolled, zoomed, opened.
"use strict";
(() => {
  const doing = document.getElementById("doing");
  const said = document.getElementById("said");
  const trouble = document.getElementById("trouble");
  const pause = document.getElementById("pause");
  const place = document.querySelector("main");
  let frame = place.querySelector("iframe");
  let shown = 0, coming = 0, paused = false, missed = 0, over = false;

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "update again" : "stop updating";
  });

  const inPage = (of) => of.contentDocument;
  function put(from, to) {
    const before = inPage(from), after = inPage(to);
    const opened = [...before.querySelectorAll("details")].map((one) => one.open);
    if (before.querySelector("h1").textContent === after.querySelector("h1").textContent) {
      [...after.querySelectorAll("details")].forEach((one, number) => { if (number < opened.length) one.open = opened[number]; });
    }
    const axis = before.getElementById("axis"), next = after.getElementById("axis");
    if (axis && next) {
      const [begins, ends] = ["--from", "--to"].map((name) => Number(axis.style.getPropertyValue(name)));
      // Who sees all of it goes on seeing all of it.
      if (begins > Number(axis.dataset.begins) || ends < Number(axis.dataset.ends)) {
        next.dispatchEvent(new to.contentWindow.CustomEvent("span", { detail: [begins, ends] }));
      }
    }
    to.contentWindow.scrollTo(0, from.contentWindow.scrollY);
    const focused = before.activeElement;
    if (document.activeElement === from) to.focus();
    if (focused && focused.id && after.getElementById(focused.id)) after.getElementById(focused.id).focus({ preventScroll: true });
  }

  function load(page) {
    coming = page;
    const fresh = document.createElement("iframe");
    fresh.title = frame.title;
    fresh.className = "coming";
    fresh.addEventListener("load", () => {
      put(frame, fresh);
      fresh.className = "";
      frame.remove();
      frame = fresh;
      shown = page;
      coming = 0;
    }, { once: true });
    fresh.src = `page?${page}`;
    place.append(fresh);
  }

  async function ask() {
    try {
      const answer = await fetch("state");
      const state = await answer.json();
      missed = 0;
      said.textContent = state.said;
      trouble.textContent = state.trouble && `The newest could not be drawn: ${state.trouble}`;
      if (state.page > shown && !coming && !paused) load(state.page);
      over = state.ended && !coming && (paused || state.page <= shown);
    } catch {
      missed += 1;
      over = missed > 2;
    }
    if (over) {
      doing.textContent = "The command has ended";
      said.textContent = missed ? "This is how far it had come." : "This is all of it.";
      pause.hidden = true;
      return;
    }
    setTimeout(ask, 1000);
  }
  ask();
})();
