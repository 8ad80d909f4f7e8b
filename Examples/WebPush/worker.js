// Shows what Chapar sends, in browsers that do not read declarative messages themselves.
self.addEventListener("push", (event) => {
  const { title = "", navigate, app_badge: badge, ...options } = event.data?.json()?.notification ?? {};
  options.data = { navigate, actions: options.actions ?? [], data: options.data };
  if (badge && navigator.setAppBadge) event.waitUntil(navigator.setAppBadge(Number(badge)));
  event.waitUntil(self.registration.showNotification(title, options));
});
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { navigate, actions } = event.notification.data ?? {};
  const url = actions?.find(({ action }) => action === event.action)?.navigate ?? navigate;
  if (url) event.waitUntil(self.clients.openWindow(url));
});
