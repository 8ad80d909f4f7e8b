// Verifies webhooks of Chapar in Node without a package: import { verify } from "./verify.mjs"
import { createHmac, timingSafeEqual } from "node:crypto";

/// Returns whether a request is Chapar's: `headers` with names in lower case, `body` the raw bytes.
export function verify(secret, headers, body, now = Math.floor(Date.now() / 1000)) {
  const id = headers["webhook-id"], timestamp = headers["webhook-timestamp"];
  if (!id || !/^[0-9]+$/.test(timestamp ?? "") || Math.abs(now - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const wanted = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  return (headers["webhook-signature"] ?? "").split(" ").some((entry) => {
    const [version, code] = entry.split(",", 2);
    const found = Buffer.from(code ?? "", "base64");
    return version === "v1" && found.length === wanted.length && timingSafeEqual(found, wanted);
  });
}
