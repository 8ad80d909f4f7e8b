// Tells Chapar that a message arrived or was opened. Needs nothing but Foundation.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Reports an event, `delivered` or `opened`, of the message with this data; does nothing for other messages.
func report(_ event: String, _ data: [AnyHashable: Any], to gateway: String, waits: [UInt64] = [0, 2, 8]) async {
    guard let id = data["chapar_receipt"] as? String, let url = URL(string: "\(gateway)/v1/receipts/\(id)") else {
        return
    }
    var request = URLRequest(url: url, timeoutInterval: 3)
    request.httpMethod = "POST"
    request.setValue("application/json", forHTTPHeaderField: "Content-Type")
    request.httpBody = Data(#"{"event":"\#(event)"}"#.utf8)
    for wait in waits {
        try? await Task.sleep(nanoseconds: wait * 1_000_000_000)
        let answer = try? await URLSession.shared.data(for: request).1 as? HTTPURLResponse
        // 429 and 503 ask to come again; anything else stays as it is.
        if let status = answer?.statusCode, status != 429, status < 500 { return }
    }
}

#if canImport(UserNotifications) && os(iOS)
    import UserNotifications

    let gateway = "https://push.example.com"

    /// The notification service extension, a target of its own: iOS runs it when a message arrives.
    final class NotificationService: UNNotificationServiceExtension {
        override func didReceive(
            _ request: UNNotificationRequest,
            withContentHandler show: @escaping (UNNotificationContent) -> Void
        ) {
            Task {
                // Once: the message is shown after it.
                await report("delivered", request.content.userInfo, to: gateway, waits: [0])
                show(request.content)
            }
        }
    }

    /// The delegate of UNUserNotificationCenter, in the app: the user opened a message.
    final class Openings: NSObject, UNUserNotificationCenterDelegate {
        func userNotificationCenter(_: UNUserNotificationCenter, didReceive response: UNNotificationResponse) async {
            guard response.actionIdentifier != UNNotificationDismissActionIdentifier else { return }
            await report("opened", response.notification.request.content.userInfo, to: gateway)
        }
    }
#endif
