// What a live page needs beyond htmx: the pill, Pause, and keys. Without this
// file every control is still a link that works.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const url = () => new URL(location.href);
  const pausedNow = () => url().searchParams.get("paused") === "1";

  const blank = byId("stream").cloneNode(false); // before htmx has seen it
  let connection = null; // of the running stream
  let retry = 0; // timer of a stream that did not begin

  function show(state) {
    const pill = byId("live");
    pill.dataset.state = state;
    if (pill.textContent !== state.toUpperCase()) pill.textContent = state.toUpperCase();
  }

  // A stream belongs to its element. Without the element it ends, here and on
  // the server; a fresh one begins anew.
  function stop() {
    clearTimeout(retry);
    byId("stream")?.remove();
    connection?.abortController?.abort();
    connection?.delayCanceller?.();
    connection?.reader?.cancel().catch(() => {});
    connection = null;
  }

  function start() {
    stop();
    const fresh = blank.cloneNode(false);
    fresh.setAttribute("hx-trigger", "load");
    document.body.append(fresh);
    htmx.process(fresh);
  }

  function pause(on) {
    const set = (to, paused) => {
      if (paused) to.searchParams.set("paused", "1");
      else to.searchParams.delete("paused");
      return to.href;
    };
    history.replaceState(history.state, "", set(url(), on));
    // Links carry the page's state on, so they have to follow it.
    for (const a of document.querySelectorAll(".panel nav a, .themes a, .windows a, #pause, #refresh")) {
      a.href = set(new URL(a.href), a.id === "pause" ? !on : on);
    }
    byId("pause").textContent = on ? "Resume" : "Pause";
    show(on ? "paused" : "reconnecting");
    if (on) stop();
    else start();
  }

  const ofStream = (event) => event.target?.id === "stream";

  document.addEventListener("htmx:sse:before:connection", (event) => {
    if (!ofStream(event)) return;
    if (pausedNow()) event.preventDefault();
    else if (event.detail.connection.attempt > 0) show("reconnecting");
  });
  document.addEventListener("htmx:sse:after:connection", (event) => {
    if (!ofStream(event)) return;
    connection = event.detail.connection;
    if (connection.status === 200) show("live");
  });
  document.addEventListener("htmx:sse:before:message", (event) => {
    if (pausedNow()) event.preventDefault();
  });
  document.addEventListener("htmx:sse:error", () => {
    if (!pausedNow()) show("reconnecting");
  });

  // A stream that was refused must not put the refusal where the numbers are.
  document.addEventListener("htmx:before:swap", (event) => {
    const ctx = event.detail?.ctx;
    if (ctx?.sourceElement?.id === "stream" && ctx.response && ctx.response.status !== 200) event.preventDefault();
  });
  document.addEventListener("htmx:finally:request", (event) => {
    const ctx = event.detail?.ctx;
    if (ctx?.sourceElement?.id !== "stream" || pausedNow()) return;
    if (ctx.response?.status === 200) return;
    show("reconnecting");
    clearTimeout(retry);
    retry = setTimeout(() => pausedNow() || start(), 5000);
  });

  document.addEventListener("click", (event) => {
    const a = event.target.closest?.("#pause");
    if (!a || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    pause(!pausedNow());
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    for (const a of document.querySelectorAll("[data-key]")) {
      if (a.dataset.key !== event.key.toLowerCase()) continue;
      event.preventDefault();
      a.click();
      return;
    }
  });
})();
