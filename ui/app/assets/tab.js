// Names the browser tab: survives a reload, is no other tab's (a duplicate gets its own name).
async () => {
  const key = 'stategate-tab';
  const fresh = () => [...crypto.getRandomValues(new Uint8Array(16))]
    .map(b => b.toString(16).padStart(2, '0')).join('');
  let id = sessionStorage.getItem(key);
  const line = new BroadcastChannel('stategate-tabs');
  if (id) {
    const taken = await new Promise(done => {
      line.onmessage = e => { if (e.data.taken === id) done(true); };
      line.postMessage({asks: id});
      setTimeout(() => done(false), 120);
    });
    if (taken) id = null;
  }
  id = id || fresh();
  sessionStorage.setItem(key, id);
  line.onmessage = e => { if (e.data.asks === id) line.postMessage({taken: id}); };
  window.stategateTab = line;
  return id;
}
