// A button at each command. Without it a click selects the whole command.
document.documentElement.classList.add("copies");
document.addEventListener("click", async ({ target }) => {
  if (!target.matches(".command > .copy")) return;
  const command = target.previousElementSibling;
  let done = true;
  try {
    await navigator.clipboard.writeText(command.textContent);
  } catch {
    // Not every address of a page may use the clipboard so.
    getSelection().selectAllChildren(command);
    done = document.execCommand("copy");
  }
  target.textContent = done ? "Copied" : "Selected";
  setTimeout(() => { target.textContent = "Copy"; }, 1500);
});
