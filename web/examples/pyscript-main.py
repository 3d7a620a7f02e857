from pyscript import document, window, workers

show = document.getElementById("content").append
worker = await workers["decoder"]
document.getElementById("decoder").xworker.sync.show = show
show(await worker.decode(window.URL.new("recorded.txt", window.location.href).href))
document.getElementById("status").textContent = "Finished."
