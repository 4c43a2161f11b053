"""The sample corpus: 14 short articles on natural phenomena, and questions about them."""
