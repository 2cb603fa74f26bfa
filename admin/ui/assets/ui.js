// The page is whole without this script. With it, the parts of the page that change are swapped
// while one looks: the server says that something has changed, the page is fetched, and of its
// parts those are put in place that differ.
(() => {
  "use strict";
  const body = document.body;
  const state = document.getElementById("live");
  const spoken = document.getElementById("spoken");
  if (!body.dataset.version || !window.EventSource) return;

  let source = null;
  let busy = false;
  let wanted = "";
  let retry = 0;

  const say = (word, text) => {
    state.dataset.state = word;
    state.textContent = text;
  };
  // What is spoken is the sentence of a verdict, when its word changes: numbers change all the time.
  const topicOf = (root) => root.querySelector("[data-spoken]")?.dataset.topic || "";
  let topic = topicOf(document);
  const here = () => location.pathname + location.search;
  const parts = (root) => [...root.querySelectorAll("[data-part]")];

  // What somebody does in a part is kept: what is open, where the focus is, what is typed and
  // how far a table is scrolled.
  const swap = (old, fresh) => {
    const open = new Set([...old.querySelectorAll("details[id]")].filter((d) => d.open).map((d) => d.id));
    const closed = new Set([...old.querySelectorAll("details[id]")].filter((d) => !d.open).map((d) => d.id));
    const scrolled = new Map([...old.querySelectorAll(".scroll[id]")].map((s) => [s.id, [s.scrollLeft, s.scrollTop]]));
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    const typed = active && active.matches("input, select") ? active.value : null;
    const caret = typed !== null && active.type === "search" ? [active.selectionStart, active.selectionEnd] : null;
    const focus = active && (active.id || (active.closest("details[id]") && active.closest("details[id]").id));
    old.replaceChildren(...fresh.childNodes);
    old.dataset.version = fresh.dataset.version;
    for (const d of old.querySelectorAll("details[id]")) {
      if (open.has(d.id)) d.open = true;
      if (closed.has(d.id)) d.open = false;
    }
    for (const [id, [left, top]] of scrolled) {
      const s = document.getElementById(id);
      if (s) s.scrollTo(left, top);
    }
    let target = focus && document.getElementById(focus);
    if (target && target.tagName === "DETAILS") target = target.querySelector("summary");
    if (!target) return;
    if (typed !== null) target.value = typed;
    target.focus({ preventScroll: true });
    if (caret) target.setSelectionRange(...caret);
  };

  // Text that is selected to be copied is not taken away.
  const selecting = () => {
    const s = getSelection();
    return s && !s.isCollapsed && document.querySelector("main").contains(s.anchorNode);
  };

  const refresh = async () => {
    if (busy || wanted === body.dataset.version) return;
    if (selecting()) {
      setTimeout(refresh, 2000);
      return;
    }
    busy = true;
    try {
      const have = parts(document).map((p) => p.dataset.version).join(",");
      const answer = await fetch(here(), { headers: { Accept: "text/html", "Understudy-Have": have }, redirect: "manual" });
      if (answer.status >= 500) throw new Error("the server cannot answer now");
      if (!answer.ok) {
        gone();
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const news = page.querySelector("[data-spoken]");
      if (news && topicOf(page) !== topic) {
        topic = topicOf(page);
        spoken.textContent = news.dataset.spoken;
      }
      for (const fresh of parts(page)) {
        const old = document.getElementById(fresh.id);
        if (!old) {
          location.reload();
          return;
        }
        if (!("same" in fresh.dataset) && old.dataset.version !== fresh.dataset.version) swap(old, fresh);
      }
      body.dataset.version = page.body.dataset.version;
      retry = 0;
      begin(); // if the stream has ended, and the page is there all the same
    } catch {
      say("lost", "Not live: the server does not answer. Trying again.");
    } finally {
      busy = false;
    }
  };

  const gone = () => {
    stop();
    say("gone", "This page is not live any more: ");
    const a = document.createElement("a");
    a.href = here();
    a.textContent = "load it again";
    state.append(a);
  };

  const stop = () => {
    if (source) source.close();
    source = null;
  };

  const begin = () => {
    if (source || document.hidden) return;
    source = new EventSource(here());
    source.addEventListener("version", (e) => {
      say("live", "Live");
      wanted = e.data;
      refresh();
    });
    source.addEventListener("gone", () => {
      stop();
      wanted = "gone";
      refresh();
    });
    source.addEventListener("error", () => {
      if (!source || source.readyState !== EventSource.CLOSED) {
        say("lost", "Connecting …");
        return;
      }
      // It was refused: too many pages are live, or this one is no more.
      stop();
      retry += 1;
      say("lost", "Not live now. Load the page again to see what is new.");
      if (retry < 10) setTimeout(begin, 5000 * retry);
    });
  };

  // A page that nobody looks at costs nothing, and leaves its connection to others.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : begin()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", begin);
  begin();
})();
