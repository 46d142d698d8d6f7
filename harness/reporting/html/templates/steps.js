// Goes through a diagram of space and time step by step: what has not come yet is faint.
"use strict";
for (const diagram of document.querySelectorAll(".diagram")) {
  const { steps, lines } = JSON.parse(diagram.querySelector(".steps-data").textContent);
  if (!steps.length) continue;
  const paper = diagram.querySelector(".paper");
  const now = diagram.querySelector(".now");
  const said = diagram.querySelector(".now-said");
  const count = diagram.querySelector(".count");
  const rows = diagram.querySelector(".held tbody");
  const arrows = [...diagram.querySelectorAll(".arrow")];
  const signs = [...diagram.querySelectorAll(".step")];
  let current = -1;
  diagram.querySelector(".stepping").hidden = false;
  count.textContent = `${steps.length} steps`;
  const crash = diagram.querySelector(".step.crash");
  if (crash) paper.scrollLeft = steps[Number(crash.dataset.step)].x - paper.clientWidth / 2;

  function cell(row, text, tag = "td") {
    const made = document.createElement(tag);
    made.textContent = text;
    row.append(made);
    return made;
  }

  function hold(upto) {
    const held = new Map();
    for (const step of steps.slice(0, upto + 1)) {
      if (step.line !== null && step.holds.length) held.set(step.line, step.holds);
    }
    rows.replaceChildren();
    for (const [line, { name, ends }] of lines.entries()) {
      if (!held.has(line)) continue;
      const row = document.createElement("tr");
      const dead = ends !== null && ends <= upto;
      cell(row, dead ? `${name}, dead` : name, "th").scope = "row";
      cell(row, held.get(line).filter(([, value]) => value).map(([label, value]) => `${label}: ${value}`).join("\n"));
      row.className = steps[upto].line === line ? "current" : dead ? "gone-by-now" : "";
      rows.append(row);
    }
  }

  function go(to) {
    current = Math.max(0, Math.min(steps.length - 1, to));
    const step = steps[current];
    now.setAttribute("x1", step.x);
    now.setAttribute("x2", step.x);
    now.setAttribute("visibility", "visible");
    for (const arrow of arrows) arrow.classList.toggle("to-come", Number(arrow.dataset.departs) > current);
    for (const sign of signs) sign.classList.toggle("to-come", Number(sign.dataset.step) > current);
    said.textContent = `${(step.at / 1000).toFixed(3)} ms: ${step.said}`;
    count.textContent = `step ${current + 1} of ${steps.length}`;
    hold(current);
    if (step.x < paper.scrollLeft + 150 || step.x > paper.scrollLeft + paper.clientWidth - 60) {
      paper.scrollLeft = step.x - paper.clientWidth / 2;
    }
  }

  const going = {
    first: () => go(0), back: () => go(current - 1), on: () => go(current + 1), last: () => go(steps.length - 1),
  };
  const keys = { ArrowLeft: "back", ArrowRight: "on", Home: "first", End: "last" };
  diagram.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys) || event.target.matches("select")) return;
    going[keys[event.key]]();
    event.preventDefault();
  });
  diagram.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-go]");
    const sign = event.target.closest(".step");
    if (button) going[button.dataset.go]();
    else if (sign) go(Number(sign.dataset.step));
  });
  if (!document.getElementById("axis")) {
    for (const shown of (diagram.closest(".with-evidence") || document).querySelectorAll("button.show")) {
      const last = Math.max(...shown.dataset.at.split(" ").map(Number));
      shown.addEventListener("click", () => {
        go(steps.findLastIndex((step) => step.at <= last));
        paper.focus();
      });
    }
  }
  const follow = diagram.querySelector("select");
  if (follow) {
    follow.addEventListener("change", () => {
      for (const one of diagram.querySelectorAll("[data-harmed]")) {
        const harmed = follow.value === "" || one.dataset.harmed.split(" ").includes(follow.value);
        one.classList.toggle("other", !harmed);
      }
    });
  }
}
