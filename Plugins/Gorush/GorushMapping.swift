import ChaparCore
import ChaparQueue

/// Turns entries of gorush's requests into notifications of the API.
///
/// Each platform has a file of its own with its fields. What gorush leaves out for a platform is left out here too.
struct GorushMapping {
    /// A notification of the API, and its tokens.
    struct Message {
        var notification: JSONObject
        /// The tokens, as the caller wrote them; one empty text for a topic or a condition.
        var tokens: [String]
    }

    /// Why a target of an entry gets nothing.
    struct Failure: Error, Equatable {
        var token: String
        var error: String
    }

    /// The result for an entry.
    struct Result {
        /// Whether its platform is configured: only then its targets count.
        var isConfigured = true
        var messages: [Message] = []
        var failures: [Failure] = []
    }

    /// A notification that is being put together.
    struct Draft {
        var backend = ""
        var service: TokenService
        /// The word under which `overrides` has the platform's own members.
        var kind: String
        var content = JSONObject()
        var options = JSONObject()
        var overrides = JSONObject()
        /// The time to live that the entry asks for, in seconds.
        var life: Int64?
    }

    /// The reason why an entry is not sent at all.
    struct Refusal: Error {
        var sentence: String
        /// Whether its platform is missing, so that its targets do not count.
        var isUnconfigured = false
    }

    /// The longest id in the metadata, in bytes of JSON: the API takes 512 for both together.
    private static let largestID = 240
    /// The most tokens of one notification of the API.
    static let tokensPerMessage = 10_000

    let options: GorushOptions
    /// The backends that the caller may use.
    let backends: Set<String>
    /// The time, in seconds since 1970.
    let now: Int64
    /// Returns what is wrong with a token; nil for one that may be sent to.
    let problem: (DeviceToken) -> String?

    /// Maps an entry.
    func map(_ entry: GorushEntry) -> Result {
        var result = Result()
        do throws(Refusal) {
            let draft = try draft(entry)
            guard backends.contains(draft.backend) else {
                throw Refusal(
                    sentence: "not_configured: This platform has no backend here that the caller's key may use.",
                    isUnconfigured: true
                )
            }
            try audiences(of: entry, draft, into: &result)
        } catch {
            result.isConfigured = !error.isUnconfigured
            let tokens = error.isUnconfigured || entry.recipients.isEmpty ? [""] : entry.recipients
            result.failures = tokens.map { Failure(token: $0, error: error.sentence) }
        }
        return result
    }

    private func draft(_ entry: GorushEntry) throws(Refusal) -> Draft {
        guard let platform = entry.platform else {
            throw Refusal(
                sentence: "unknown_platform: The platform must be 1 (iOS), 2 (Android) or 3 (Huawei).",
                isUnconfigured: true
            )
        }
        var draft =
            switch platform {
            case .apple: try apple(entry)
            case .google: try google(entry)
            case .huawei: try huawei(entry)
            }
        // gorush 1.22 does not read `dry_run` and sends for real, which its callers do not expect.
        if let value = entry.object.value("dry_run") {
            guard let isDry = value.boolValue else { throw Self.wrongValue("dry_run", "true or false") }
            if isDry { draft.options["dry_run"] = true }
        }
        draft.options["ttl"] = .integer(min(max(0, draft.life ?? defaultLife(platform)), GorushOptions.longestLife))
        return draft
    }

    /// Returns the refusal of a member that gorush's README names and its code does not read, so that its type is free.
    static func wrongValue(_ name: String, _ form: String) -> Refusal {
        Refusal(sentence: "wrong_value: \(name): Write \(form).")
    }

    private func defaultLife(_ platform: GorushEntry.Platform) -> Int64 {
        platform == .huawei ? min(GorushOptions.huaweiLife, options.defaultLife) : options.defaultLife
    }

    /// Reads the priority; the word's case does not matter.
    func priority(_ entry: GorushEntry) throws(Refusal) -> String? {
        guard let word = entry.priority?.lowercased() else { return nil }
        guard ["normal", "high"].contains(word) else {
            throw Refusal(sentence: "unknown_priority: \"\(entry.priority ?? "")\" is not normal or high.")
        }
        return word
    }

    /// Writes the caller's own id of an entry and Apple's, which come back with the notification.
    ///
    /// `notif_id` is written here only. It becomes the reference, by which messages are found, or goes into the
    /// metadata when the API does not take it as a reference. The metadata leaves out ids of more bytes than
    /// ``largestID``, since a message is worth more than its id; logs have them all the same.
    private static func putIDs(_ entry: GorushEntry, into notification: inout JSONObject) {
        var metadata = JSONObject()
        func put(_ id: String?, as name: String) {
            guard let id, JSONValue.string(id).bytes.count <= largestID else { return }
            metadata[name] = .string(id)
        }
        if let id = entry.notifID, isReference(id) {
            notification["reference"] = .string(id)
        } else {
            put(entry.notifID, as: "notif_id")
        }
        if entry.platform == .apple { put(entry.object.string("apns_id"), as: "apns_id") }
        if !metadata.isEmpty { notification["metadata"] = .object(metadata) }
    }

    /// Whether the API takes a text, which is not empty, as a reference.
    private static func isReference(_ text: String) -> Bool {
        text.utf8.count <= NotificationRecord.maximumReferenceBytes
            && !text.utf8.contains { $0 < 0x20 || $0 == 0x7F }
    }

    // MARK: Targets

    private func audiences(of entry: GorushEntry, _ draft: Draft, into result: inout Result) throws(Refusal) {
        let topics = entry.topics
        let condition = entry.platform == .apple ? nil : entry.condition
        if !topics.isEmpty, condition != nil {
            throw Refusal(sentence: "topic_and_condition: An entry goes to a topic or to a condition, not to both.")
        }
        guard !topics.isEmpty || condition != nil || !entry.recipients.isEmpty else {
            throw Refusal(
                sentence: "no_target: The entry has no tokens"
                    + (entry.platform == .apple ? "." : ", no topic and no condition.")
            )
        }
        var good: [String] = []
        good.reserveCapacity(entry.recipients.count)
        for token in entry.recipients {
            if let problem = problem(DeviceToken(token, service: draft.service)) {
                result.failures.append(Failure(token: token, error: problem))
            } else {
                good.append(token)
            }
        }
        var start = 0
        while start < good.count {
            let tokens = Array(good[start..<min(start + Self.tokensPerMessage, good.count)])
            let list = tokens.map { ["token": .string($0), "service": .string(draft.service.rawValue)] as JSONValue }
            result.messages.append(message(draft, entry, to: ["tokens": .array(list)], tokens))
            start += tokens.count
        }
        for name in topics { result.messages.append(message(draft, entry, to: ["topic": .string(name)], [""])) }
        if let condition {
            // The API tells a condition from a topic by its quotation marks.
            guard condition.contains("'") || condition.contains("\"") else {
                result.failures.append(
                    Failure(token: "", error: "malformed_condition: A condition looks like 'news' in topics.")
                )
                return
            }
            result.messages.append(message(draft, entry, to: ["topic": .string(condition)], [""]))
        }
    }

    private func message(_ draft: Draft, _ entry: GorushEntry, to: JSONValue, _ tokens: [String]) -> Message {
        var notification: JSONObject = ["to": to, "backend": .string(draft.backend)]
        if !draft.content.isEmpty { notification["content"] = .object(draft.content) }
        notification["options"] = .object(draft.options)
        if !draft.overrides.isEmpty { notification["overrides"] = [draft.kind: .object(draft.overrides)] }
        Self.putIDs(entry, into: &notification)
        return Message(notification: notification, tokens: tokens)
    }
}

extension GoObject {
    /// Returns a member whose type was checked when the entry was read; of another type it counts as absent.
    func string(_ name: String) -> String? { value(name)?.stringValue.flatMap { $0.isEmpty ? nil : $0 } }
}

extension JSONObject {
    /// The object without members that are `null`, at any depth: to Go they are absent.
    var withoutNulls: JSONObject {
        var object = JSONObject()
        for (name, value) in self where value != .null {
            object[name] = value.objectValue.map { .object($0.withoutNulls) } ?? value
        }
        return object
    }

    /// Sets a value in objects within objects, which are made where they are missing; nil sets nothing.
    mutating func put(_ value: JSONValue?, at path: String...) { put(value, at: path[...]) }

    private mutating func put(_ value: JSONValue?, at path: ArraySlice<String>) {
        guard let value, let name = path.first else { return }
        guard path.count > 1 else { return self[name] = value }
        var inner = self[name]?.objectValue ?? JSONObject()
        inner.put(value, at: path.dropFirst())
        self[name] = .object(inner)
    }

    /// Lays an object's members over the one under a name.
    mutating func lay(_ object: JSONObject?, over name: String) {
        guard let object else { return }
        self[name] = .object((self[name]?.objectValue ?? JSONObject()).merging(object))
    }
}
