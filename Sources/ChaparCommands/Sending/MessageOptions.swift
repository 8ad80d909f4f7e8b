import ArgumentParser
import Foundation
import ChaparCore
import ChaparQueue

/// The flags that describe a message, as a request of the API: the same with and without a gateway.
struct MessageOptions: ParsableArguments {
    @Option(help: "The heading.")
    var title: String?

    @Option(help: "A second heading.")
    var subtitle: String?

    @Option(help: "The text; the same as the argument.")
    var body: String?

    @Option(help: "The https address of a picture.")
    var image: String?

    @Option(help: "A sound of the app, or default.")
    var sound: String?

    @Option(help: "The number on the app's icon; 0 removes it.")
    var badge: Int?

    @Option(help: "The app's name for a set of actions.")
    var category: String?

    @Option(help: "What a tap opens.")
    var clickURL: String?

    @Option(help: "A value for the app, key=text, or key:=JSON for numbers, lists, objects. Repeat it.")
    var data: [String] = []

    @Option(help: "How many seconds the platform may try to deliver; 0 is now or never.")
    var ttl: Int?

    @Option(help: "high or normal.")
    var priority: Priority?

    @Option(help: "A newer message with the same id replaces this one.")
    var collapseID: String?

    @Option(help: "When to send: 2h, tomorrow, 14:30, 2027-01-05T09:00:00Z; only through a gateway.")
    var sendAt: String?

    @Flag(help: "Wake the app without showing anything.")
    var silent = false

    @Option(
        name: .customLong("override"),
        help: "Members for one kind of backend, kind=JSON, such as apns={\"payload\":{…}}. Repeat it."
    )
    var overrides: [String] = []

    @Option(help: "The route to take, by its name.")
    var route: String?

    @Option(help: "The backend to take, by its name.", completion: NameCompletion.backends.kind)
    var backend: String?

    /// The priority, as an argument.
    enum Priority: String, ExpressibleByArgument, CaseIterable {
        case high, normal
    }

    /// Returns the request without its audience; `text` is the body when no flag gives it.
    func request(text: String?) throws -> JSONObject {
        var request = JSONObject()
        let content = try content(text: text)
        if !content.isEmpty { request["content"] = .object(content) }
        let options = try options
        if !options.isEmpty { request["options"] = .object(options) }
        let laidOver = try overrides.reduce(into: JSONObject()) { object, pair in
            let (kind, value) = try Self.split(pair, at: "=", "--override kind=JSON")
            object[kind] = try Self.json(value, "--override \(kind)")
        }
        if !laidOver.isEmpty { request["overrides"] = .object(laidOver) }
        if let route { request["route"] = .string(route) }
        if let backend { request["backend"] = .string(backend) }
        return request
    }

    /// Returns whether texts were given, all of them empty, and the message has nothing else that an app shows or uses.
    ///
    /// `text` is the body when no flag gives it.
    func showsOnlyEmptyText(_ text: String?) -> Bool {
        let texts = [title, subtitle, body ?? text].compactMap(\.self)
        return !texts.isEmpty && texts.allSatisfy { $0.allSatisfy(\.isWhitespace) } && !silent && image == nil
            && sound == nil && badge == nil && data.isEmpty && overrides.isEmpty
    }

    private func content(text: String?) throws -> JSONObject {
        var content = JSONObject()
        content["title"] = title.map { .string($0) }
        content["subtitle"] = subtitle.map { .string($0) }
        content["body"] = (body ?? text).map { .string($0) }
        content["image"] = image.map { .string($0) }
        content["sound"] = sound.map { .string($0) }
        content["badge"] = badge.map { .integer(Int64($0)) }
        content["category"] = category.map { .string($0) }
        content["click_url"] = clickURL.map { .string($0) }
        let values = try data.reduce(into: JSONObject()) { object, pair in
            let (key, value) = try Self.split(pair, at: "=", "--data key=text")
            if key.hasSuffix(":") {
                object[String(key.dropLast())] = try Self.json(value, "--data \(key)")
            } else {
                object[key] = .string(value)
            }
        }
        if !values.isEmpty { content["data"] = .object(values) }
        return content
    }

    private var options: JSONObject {
        get throws {
            var options = JSONObject()
            options["ttl"] = ttl.map { .integer(Int64($0)) }
            options["priority"] = priority.map { .string($0.rawValue) }
            options["collapse_id"] = collapseID.map { .string($0) }
            options["send_at"] = try sendAt.map { .string(try PersonTime.text($0, .future, option: "--send-at")) }
            if silent { options["silent"] = true }
            return options
        }
    }

    /// Splits a `slot:token` of a device: the slot is a service, or a service and a kind such as `ios-apns/voip`.
    static func deviceToken(_ text: String) throws -> (slot: String, token: String) {
        var (name, token) = try split(text, at: ":", "--token service:token, such as ios-apns:4f1c…")
        // The name of an activity may have colons; tokens of services with kinds have none.
        if name.contains("/live_activity_"), let last = text.lastIndex(of: ":") {
            (name, token) = (String(text[..<last]), String(text[text.index(after: last)...]))
        }
        let service = String(name.prefix { $0 != "/" })
        _ = try recipient("\(service):\(token)")
        guard TokenSlot(name) != nil else {
            throw ValidationError(
                "\"\(name)\" is no kind of token. There are \(TokenKind.typeNames.joined(separator: ", ")); "
                    + "live_activity_start has the attributes type behind it, live_activity_update the activity: "
                    + "ios-apns/live_activity_update/order-42:4f1c…"
            )
        }
        return (name, token)
    }

    /// Returns `service:token` as an entry of `to.tokens`.
    static func recipient(_ text: String) throws -> JSONValue {
        let (service, token) = try split(text, at: ":", "--to service:token, such as ios-apns:4f1c…")
        guard TokenService.named(service) != nil else {
            let names = TokenService.known.map(\.rawValue)
            let hint = TokenService.nearest(to: service).map { "Did you mean \"\($0)\"? " } ?? ""
            throw ValidationError(
                "\"\(service)\" is no token service. \(hint)There are \(names.joined(separator: ", "))."
            )
        }
        return ["token": .string(token), "service": .string(service)]
    }

    private static func split(_ text: String, at mark: Unicode.Scalar, _ form: String) throws -> (String, String) {
        guard let (head, tail) = text.halves(at: mark), !head.isEmpty else {
            throw ValidationError("\"\(text)\" is not of the form \(form).")
        }
        return (head, tail)
    }

    private static func json(_ text: String, _ flag: String) throws -> JSONValue {
        do {
            return try JSONValue(parsing: Array(text.utf8))
        } catch {
            throw ValidationError("\(flag): \"\(text)\" is not JSON.")
        }
    }
}
