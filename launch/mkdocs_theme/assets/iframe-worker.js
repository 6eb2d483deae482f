// Search on a site that is opened from disk: no worker may start there, so that a hidden frame does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      this.loaded = new Promise((done) => frame.addEventListener("load", () => done(frame.contentWindow)));
      this.loaded.then((inside) => {
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      });
      frame.hidden = true;
      frame.srcdoc = `<script src="${url}"></script>`;
      document.body.append(frame);
    }

    postMessage(data) {
      this.loaded.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
