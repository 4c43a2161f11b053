// Saves a text as a file of the browser's, without a second click; its first line is the name.
text => {
  if (!text) return;
  const at = text.indexOf('\n');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text.slice(at + 1)], {type: 'text/plain'}));
  link.download = text.slice(0, at);
  link.click();
  URL.revokeObjectURL(link.href);
}
