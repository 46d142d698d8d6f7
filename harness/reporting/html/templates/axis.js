// Zoom and hover over the axis of time: all that stands on it is placed by CSS from --from and --to.
"use strict";
(() => {
  const axis = document.getElementById("axis");
  if (!axis) return;
  const whole = [Number(axis.dataset.begins), Number(axis.dataset.ends)];
  const panels = JSON.parse(document.getElementById("curves").textContent);
  const overlay = axis.querySelector(".overlay .track");
  const cursor = overlay.querySelector(".cursor");
  const chosen = overlay.querySelector(".chosen");
  const readout = axis.querySelector(".readout");
  const ticks = axis.querySelector(".ticks .track");
  const charts = axis.querySelectorAll(".panel svg");
  const lanes = [...axis.querySelectorAll(".lane")];
  let shown = whole.slice();
  axis.querySelector(".tools").hidden = false;

  const said = (at, step) => {
    if (step >= 1e5) return (at / 1e6).toFixed(step >= 1e6 ? 0 : 1) + " s";
    return (at / 1e3).toFixed(step >= 1e3 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3) + " ms";
  };
  const rounded = (least) => {
    if (least <= 1) return 1;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= least * 0.999999);
  };

  function show(from, to) {
    const least = Math.max(20, (whole[1] - whole[0]) / 1e5);
    let length = Math.min(Math.max(to - from, least), whole[1] - whole[0]);
    from = Math.min(Math.max(from, whole[0]), whole[1] - length);
    shown = [from, from + length];
    axis.style.setProperty("--from", shown[0]);
    axis.style.setProperty("--to", shown[1]);
    for (const chart of charts) chart.setAttribute("viewBox", `${shown[0]} 0 ${length} 100`);
    const step = rounded(length / (axis.clientWidth < 560 ? 4 : 8));
    ticks.replaceChildren();
    for (let at = Math.ceil(shown[0] / step) * step; at <= shown[1]; at += step) {
      const tick = document.createElement("i");
      tick.className = "tick";
      tick.style.setProperty("--a", at);
      tick.textContent = said(at, step);
      ticks.append(tick);
    }
  }

  const zoom = (by, around = (shown[0] + shown[1]) / 2) =>
    show(around - (around - shown[0]) * by, around + (shown[1] - around) * by);
  const move = (by) => show(shown[0] + by * (shown[1] - shown[0]), shown[1] + by * (shown[1] - shown[0]));
  const doing = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => show(...whole),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all" };
  axis.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    doing[keys[event.key]]();
    event.preventDefault();
  });
  axis.querySelector(".tools").addEventListener("click", (event) => {
    if (event.target.dataset.do) doing[event.target.dataset.do]();
  });

  const at = (event) => {
    const box = overlay.getBoundingClientRect();
    return shown[0] + ((event.clientX - box.left) / box.width) * (shown[1] - shown[0]);
  };
  const inside = (event) => {
    const box = overlay.getBoundingClientRect();
    return event.clientX >= box.left && event.clientX <= box.right && event.target.closest(".row") !== null;
  };
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

  function tell(moment, row) {
    cursor.hidden = false;
    cursor.style.setProperty("--a", moment);
    const words = [(moment / 1e6).toFixed(shown[1] - shown[0] > 1e6 ? 3 : 6) + " s"];
    for (const panel of panels) {
      const place = Math.floor((moment - panel.begins) / panel.width);
      for (const curve of panel.curves) {
        const value = curve.values[place];
        if (value !== null && value !== undefined) words.push(`${curve.name} ${number(value)} ${panel.unit}`);
      }
    }
    if (row && row.classList.contains("lane")) {
      for (const one of row.querySelectorAll(".stretch")) {
        if (Number(one.style.getPropertyValue("--a")) <= moment && moment <= Number(one.style.getPropertyValue("--b"))) {
          words.push(one.title);
        }
      }
    }
    readout.textContent = words.join(" · ");
  }

  let began = null;
  axis.addEventListener("pointermove", (event) => {
    if (began !== null) {
      const moment = at(event);
      chosen.hidden = false;
      chosen.style.setProperty("--a", Math.min(began, moment));
      chosen.style.setProperty("--b", Math.max(began, moment));
    }
    if (inside(event)) tell(at(event), event.target.closest(".row"));
  });
  axis.addEventListener("pointerleave", () => { cursor.hidden = true; });
  axis.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch" || !inside(event)) return;
    began = at(event);
    event.preventDefault();
    axis.focus();
  });
  window.addEventListener("pointerup", (event) => {
    if (began === null) return;
    const moment = at(event);
    if (!chosen.hidden && Math.abs(moment - began) > (shown[1] - shown[0]) / 200) {
      show(Math.min(began, moment), Math.max(began, moment));
    }
    began = null;
    chosen.hidden = true;
  });
  axis.addEventListener("dblclick", (event) => { if (inside(event)) show(...whole); });

  // Where a piece of evidence was seen.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.show");
    if (!button) return;
    for (const pin of overlay.querySelectorAll(".pin")) pin.remove();
    const moments = button.dataset.at.split(" ").map(Number);
    for (const moment of moments) {
      const pin = document.createElement("i");
      pin.className = "pin";
      pin.style.setProperty("--a", moment);
      overlay.append(pin);
    }
    const first = Math.min(...moments), last = Math.max(...moments);
    const margin = Math.max((last - first) * 0.5, (whole[1] - whole[0]) / 40);
    show(first - margin, last + margin);
    const line = button.closest("li");
    const station = line.closest(".way") !== null;
    readout.textContent = station
      ? [...line.childNodes].slice(0, 2).map((one) => one.textContent).join("")
      : line.querySelector("code").textContent;
    axis.scrollIntoView({ block: "center" });
    axis.focus({ preventScroll: true });
  });
  // Who puts this page in the place of another one shows what was shown there.
  axis.addEventListener("span", (event) => show(...event.detail));
  show(...whole);
})();
