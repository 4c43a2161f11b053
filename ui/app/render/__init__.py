"""Pure drawing: plain data in, HTML (or SVG) out. Nothing here knows Gradio, a graph or a store."""
