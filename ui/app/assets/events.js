// Clicks and forms inside drawn HTML become events with the element's data; focus survives.
const keys = ['action', 'look', 'continue', 'pick', 'slot'];
const marked = keys.map(k => `[data-${k}]`).join(',');
let last = null;
element.addEventListener('click', e => {
  const hit = e.target.closest(marked);
  if (!hit || hit.disabled) return;
  const key = keys.find(k => k in hit.dataset);
  last = `[data-${key}="${CSS.escape(hit.dataset[key])}"]`;
  trigger('click', {...hit.dataset});
});
element.addEventListener('submit', e => {
  e.preventDefault();
  const words = e.target.elements.words.value.trim();
  if (words) trigger('submit', {action: `${e.target.dataset.verb}[${words}]`});
});
watch('value', () => {
  const strip = element.querySelector('.sg-trail');
  if (strip) {  // what is looked at stands in sight: the last one only where that is now
    const here = strip.querySelector('.sg-here');
    strip.scrollLeft = here ? here.offsetLeft - strip.offsetLeft - 40 : strip.scrollWidth;
  }
  if (last && document.activeElement === document.body) {
    const again = element.querySelector(last);
    if (again && !again.disabled) again.focus({preventScroll: true});
  }
});
