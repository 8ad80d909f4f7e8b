import ChaparCore
import Synchronization

/// Keeps the templates of calls, one for each distinct set of constant fields, so that the transport can compress them
/// once.
final class APNsTemplates: Sendable {
    private struct Key: Hashable {
        let pushType: APNsPushType
        let topic: String
        let priority: String
    }

    private static let limit = 64
    private let topic: String
    private let alert: HTTPCallTemplate
    private let quietAlert: HTTPCallTemplate
    private let background: HTTPCallTemplate
    private let others = Mutex<[Key: HTTPCallTemplate]>([:])

    init(topic: String) {
        self.topic = topic
        alert = Self.make(.alert, topic, "10")
        quietAlert = Self.make(.alert, topic, "5")
        background = Self.make(.background, topic, "5")
    }

    func template(for headers: APNsHeaders) -> HTTPCallTemplate {
        if headers.topic == topic {
            switch (headers.pushType, headers.priority) {
            case (.alert, "10"): return alert
            case (.alert, "5"): return quietAlert
            case (.background, "5"): return background
            default: break
            }
        }
        let key = Key(pushType: headers.pushType, topic: headers.topic, priority: headers.priority)
        return others.withLock { others in
            if let template = others[key] { return template }
            if others.count >= Self.limit { others.removeAll() }
            let template = Self.make(key.pushType, key.topic, key.priority)
            others[key] = template
            return template
        }
    }

    /// Returns the template of a broadcast, whose topic is in the path.
    func broadcast(for headers: APNsHeaders) -> HTTPCallTemplate {
        let key = Key(pushType: headers.pushType, topic: "", priority: headers.priority)
        return others.withLock { others in
            if let template = others[key] { return template }
            let template = HTTPCallTemplate(
                method: "POST",
                headers: [
                    HTTPHeader("apns-push-type", headers.pushType.rawValue),
                    HTTPHeader("apns-priority", headers.priority),
                ]
            )
            others[key] = template
            return template
        }
    }

    private static func make(_ pushType: APNsPushType, _ topic: String, _ priority: String) -> HTTPCallTemplate {
        HTTPCallTemplate(
            method: "POST",
            headers: [
                HTTPHeader("apns-topic", topic),
                HTTPHeader("apns-push-type", pushType.rawValue),
                HTTPHeader("apns-priority", priority),
            ]
        )
    }
}
