// Browsers start no Worker in a page that is opened from the disk. There, the search's worker runs in a hidden frame.
// Material for MkDocs looks for the name IFrameWorker, and then finds its own files beside the worker's script.
class IFrameWorker extends EventTarget {
  constructor(address) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    inside.document.open();
    inside.document.write("<!doctype html><title>search</title><body>");
    inside.document.close();
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    inside.importScripts = async (...addresses) => {
      for (const one of addresses) await this.load(one);
    };
    this.ready = this.load(address);
  }

  load(address) {
    return new Promise((loaded, failed) => {
      const script = this.frame.contentDocument.createElement("script");
      script.src = address;
      script.onload = loaded;
      script.onerror = failed;
      this.frame.contentDocument.body.append(script);
    });
  }

  async postMessage(data) {
    await this.ready;
    this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
