// Now: what needs a hand, first; then how much goes through.
{
  addView({ path: "/", title: "base.nav_now", needs: ["read"], load: async () => ({}), draw: () => [heading(text("base.nav_now"))] });
}
