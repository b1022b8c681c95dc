"use strict";

// Where the user was going: a path of this node, or else the description of the API.
const destination = () => {
  const next = new URLSearchParams(location.search).get("next") || "";
  return /^\/(?![/\\])/.test(next) ? next : "/docs";
};

document.getElementById("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const failure = document.getElementById("failure");
  const body = JSON.stringify({
    user: document.getElementById("user").value,
    password: document.getElementById("password").value,
  });
  try {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("/login", { method: "POST", headers, body });
    if (response.ok) location.assign(destination());
    else failure.textContent = (await response.json()).message;
  } catch (error) {
    failure.textContent = String(error);
  }
});
