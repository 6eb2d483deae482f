"use strict";
// The browser of completions: finds groups and shows one at a time. Texts are set as text, never as markup.

if (DATA.browser.groups.length) startBrowser(DATA.browser.groups);

function startBrowser(groups) {
  const field = (id) => document.getElementById(id);
  const textOf = (member) => member.text ?? member.tokens.join("");
  const wholes = groups.map(() => null); // in lower case, made when first searched
  const whole = (k) => (wholes[k] ??= [groups[k].prompt, groups[k].id, ...groups[k].members.map(textOf)].join("\n").toLowerCase());
  // Thousands of tokens are shaded as they come into sight; until then they are one plain text.
  const shader = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      shader.unobserve(target);
      target.replaceChildren(...target.tokens());
    }
  }, { rootMargin: "50%" });
  let found = [];
  let place = 0;

  function fill(select, all, names) {
    const counts = new Map();
    for (const name of names) counts.set(name, (counts.get(name) || 0) + 1);
    select.append(element("option", { value: "", textContent: `${all} (${groups.length})` }));
    for (const [name, count] of counts) select.append(element("option", { value: name, textContent: `${name} (${count})` }));
    return counts.size;
  }

  function filter() {
    const [run, where, tag, words] = ["run", "where", "tag", "words"].map((id) => field(id).value);
    const wanted = words.trim().toLowerCase();
    found = [];
    groups.forEach((group, k) => {
      if ((!run || group.run === run) && (!where || group.where === where) && (!tag || group.tags.includes(tag)) &&
          (!wanted || whole(k).includes(wanted))) found.push(k);
    });
    show(0);
  }

  function show(wanted) {
    place = Math.min(Math.max(wanted, 0), Math.max(found.length - 1, 0));
    field("position").textContent = found.length ? `Group ${place + 1} of ${found.length}` : "No group is like this.";
    field("previous").disabled = place === 0;
    field("next").disabled = place >= found.length - 1;
    shader.disconnect();
    field("group").replaceChildren(...(found.length ? view(groups[found[place]]) : []));
    const chart = field("profiles");
    if (chart) draw(chart, profiles(groups[found[place]]));
  }

  function view(group) {
    const title = [group.run, group.where, group.id].filter(Boolean).join(" · ");
    const prompt = element("div", { className: "part" }, element("h3", { textContent: title }), ...(group.prompt ? [box("Prompt", [group.prompt])] : []));
    const range = scale(group);
    const members = element("div", { className: "members" }, ...group.members.map((member, k) => card(member, k, range)));
    const vote = group.members.some((member) => member.profile) ? [voteOf(group)] : [];
    const shaded = group.members.some((member) => member.tokens) ? [legend(range)] : [];
    return [prompt, ...vote, ...shaded, members];
  }

  function box(label, children) {
    const made = element("pre", { tabIndex: 0, dir: "auto" }, ...children);
    made.setAttribute("role", "region");
    made.setAttribute("aria-label", label);
    return made;
  }

  function card(member, k, range) {
    const good = ["winner", "correct", "verified"].includes(member.badge);
    const heading = element("h3", {}, `Response ${k + 1} `, element("span", { className: good ? "badge good" : "badge", textContent: member.badge }));
    const facts = Object.entries(member.facts).map(([name, value]) => `${name} ${value}`).join(" · ");
    const text = box(`Text of response ${k + 1}`, [textOf(member)]);
    if (member.tokens) {
      text.tokens = () => shadedTokens(member, range);
      shader.observe(text);
    }
    const made = element("article", { className: "part" }, heading, element("p", { className: "facts", textContent: facts }), text);
    if (member.tokens) made.append(element("p", { className: "facts", textContent: leastCertain(member) }));
    if (member.num_cut) {
      made.append(element("p", { className: "facts", textContent: `${member.num_cut.toLocaleString("en")} more characters are in the run's samples.jsonl.` }));
    }
    made.style.setProperty("--mine", `var(--c${k % COLORS})`);
    return made;
  }

  function scale(group) {
    const values = group.members.flatMap((member) => member.certainty ?? []).sort((a, b) => a - b);
    return [values[Math.floor(0.02 * values.length)], values[Math.floor(0.9 * values.length)]];
  }

  function shadedTokens(member, [low, high]) {
    return member.tokens.map((token, k) => {
      const level = Math.round(5 * Math.min(Math.max((high - member.certainty[k]) / (high - low || 1), 0), 1));
      return element("span", { className: `s${level}`, title: `${member.certainty[k]} nats`, textContent: token });
    });
  }

  function legend([low, high]) {
    return element("p", { className: "legend" }, "Shaded by certainty: ", element("span", { className: "s5", textContent: ` ${low} nats or less ` }),
      " to ", element("span", { textContent: `${high} nats or more (no shade)` }), ". Point at a token for its own.");
  }

  function leastCertain(member) {
    const order = member.certainty.map((value, k) => [value, k]).filter(([, k]) => member.tokens[k].trim()).sort((a, b) => a[0] - b[0]);
    return "Least certain: " + order.slice(0, 5).map(([value, k]) => `“${member.tokens[k].trim()}” ${value}`).join(", ");
  }

  function profiles(group) {
    const series = group.members.flatMap((member, k) => (member.profile
      ? [{ label: `${k + 1} ${member.badge}`, x: member.profile.map((_, window) => window + 1), y: member.profile, bold: member.badge === "winner" }] : []));
    return { title: "profiles", x: "window, the most certain first", y: "mean certainty, nats", series, form: "lines", percent: false };
  }

  function voteOf(group) {
    const chart = element("div", { id: "profiles", className: "chart" });
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", "Ranked profiles: " + group.members.map((member, k) => (member.profile
      ? `response ${k + 1}, ${member.badge}: ${member.profile.map((value) => value.toFixed(2)).join(", ")}` : `response ${k + 1}: none`)).join("; "));
    const profile = element("figure", { className: "part" }, element("figcaption", {}, element("h3", { textContent: "Ranked profiles" })), chart);
    const matrix = group.members.some((member) => member.windows_won)
      ? [element("div", { className: "part" }, element("h3", { textContent: "Who beat whom" }), whoBeatWhom(group))] : [];
    return element("div", { className: "parts" }, profile, ...matrix);
  }

  function whoBeatWhom(group) {
    const names = group.members.map((_, k) => String(k + 1));
    const rows = group.members.map((member, k) => [`${k + 1} ${member.badge}`,
      ...names.map((_, other) => (other === k ? "·" : member.windows_won ? member.windows_won[other] : "-")), member.facts["peers beaten"]]);
    const made = tableOf([["won over", ...names, "beaten"], ...rows], "Who beat whom");
    made.querySelector("table").className = "matrix";
    made.querySelectorAll("tbody tr").forEach((row) => {
      row.firstChild.replaceWith(element("th", { scope: "row", textContent: row.firstChild.textContent }));
      if (group.window_wins) [...row.cells].slice(1, -1).forEach((cell) => cell.classList.toggle("won", Number(cell.textContent) >= group.window_wins));
    });
    const note = `Windows that the row's response won against the column's.${group.window_wins ? ` Bold: at least ${group.window_wins}, a win over that peer.` : ""}`;
    made.append(element("p", { className: "note", textContent: note }));
    return made;
  }

  field("where-label").hidden = fill(field("where"), "all", groups.map((group) => group.where)) < 2;
  fill(field("tag"), "all", groups.flatMap((group) => group.tags));
  field("run-label").hidden = fill(field("run"), "all", groups.map((group) => group.run)) < 2;
  for (const id of ["run", "where", "tag"]) field(id).addEventListener("change", filter);
  field("words").addEventListener("input", filter);
  field("previous").addEventListener("click", () => show(place - 1));
  field("next").addEventListener("click", () => show(place + 1));
  field("completions").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && !event.target.closest("input, select, pre, .scroll")) show(place + step);
  });
  document.addEventListener("recolor", () => show(place));
  filter();
}
