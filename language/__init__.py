"""English text: words, sentences, numbers and dates. Below every other room; imports none of ours."""
