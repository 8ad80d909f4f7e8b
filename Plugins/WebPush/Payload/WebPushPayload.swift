internal import ChaparCore

/// The plaintext of a message before a recipient's id is in it.
struct WebPushBody: Sendable {
    /// The length of a message's id as text.
    private static let idBytes = 36

    /// The text that stands where the id will be.
    static let placeholder = String(repeating: "0", count: idBytes)

    let bytes: [UInt8]
    /// Where the id begins; nil where the message names itself.
    let mark: Int?

    /// Returns the plaintext of one recipient.
    func completed(for id: MessageID) -> [UInt8] {
        guard let mark else { return bytes }
        var bytes = bytes
        bytes.replaceSubrange(mark..<(mark + Self.idBytes), with: id.description.utf8)
        return bytes
    }
}

/// Turns the neutral notification into JSON that browsers show by themselves (a declarative message), and that the
/// service worker of a page can read as well.
///
/// The notification always has a `tag`, by default the delivery's id: should it go out twice, the second copy takes the
/// place of the first, except in Safari, which ignores it.
struct WebPushPayload: Sendable {
    /// The backend's settings for payloads.
    struct Settings: Sendable, Hashable {
        /// Whether messages are declarative unless they say otherwise.
        var isDeclarative = true
        /// The address that a tap opens where the message has none.
        var navigate: String?
        /// The address of the picture beside the text where the message has none.
        var icon: String?
        /// Whether silent messages are taken: for UnifiedPush, since browsers must show something.
        var allowsSilent = false
    }

    let notification: PushNotification
    let settings: Settings
    let overrides: WebPushOverrides

    init(_ notification: PushNotification, _ settings: Settings) {
        self.notification = notification
        self.settings = settings
        overrides = WebPushOverrides(notification.overrides[WebPushBackend.kind.rawValue] ?? JSONObject())
    }

    /// The address that a tap opens; nil where there is none.
    var navigate: String? {
        overrides.notification["navigate"]?.stringValue ?? notification.clickURL ?? settings.navigate
    }

    /// Whether the browser shows the message without a service worker: it must have an address to open.
    var isDeclarative: Bool {
        guard !notification.isSilent, overrides.isDeclarative ?? settings.isDeclarative else { return false }
        return navigate.map(Self.isAbsolute) ?? false
    }

    /// Whether a text is an absolute address of the web.
    static func isAbsolute(_ url: String) -> Bool {
        for scheme in ["https://", "http://"] where url.lowercased().hasPrefix(scheme) {
            return url.utf8.count > scheme.utf8.count && url.utf8.allSatisfy { $0 > 0x20 }
        }
        return false
    }

    /// The value of `Urgency`.
    var urgency: WebPushMessage.Urgency {
        overrides.urgency ?? (notification.priority == .high && !notification.isSilent ? .high : .normal)
    }

    /// Returns the plaintext for recipients of a language; the fault when it is too large.
    func body(in language: String?) -> Result<WebPushBody, MessageFault> {
        let body = encoded(in: language)
        guard body.bytes.count > WebPushEncryption.maximumPlaintext else { return .success(body) }
        return .failure(MessageFault(Self.tooLarge(body.bytes.count)))
    }

    /// Returns the fault of a message that is too large for any push service.
    static func tooLarge(_ bytes: Int) -> Finding {
        Finding(
            pointer: "#/content",
            code: "too_large",
            detail: "The message has \(bytes) bytes; a push service takes \(WebPushEncryption.maximumPlaintext)."
        )
    }

    /// Returns the plaintext, however large.
    func encoded(in language: String?) -> WebPushBody {
        var writer = JSONWriter(capacity: 512)
        var mark: Int?
        writer.beginObject()
        if isDeclarative { writer.field("web_push", 8_030) }
        if notification.isSilent {
            if !notification.data.isEmpty {
                writer.name("data")
                writer.object(notification.data)
            }
        } else {
            writer.name("notification")
            mark = write(in: language, to: &writer)
            if isDeclarative, overrides.isMutable { writer.field("mutable", true) }
        }
        writer.endObject()
        return WebPushBody(bytes: writer.bytes, mark: mark)
    }

    /// Writes the notification; returns where the id goes, if it is the tag.
    private func write(in language: String?, to writer: inout JSONWriter) -> Int? {
        var mark: Int?
        let own = overrides.notification
        writer.beginObject()
        func text(_ name: StaticString, _ value: String?) {
            if own["\(name)"] == nil { writer.field(name, value) }
        }
        // Browsers show nothing without a title, so a text alone becomes one.
        let body = notification.body?.resolved(for: language)
        text("title", notification.title?.resolved(for: language) ?? body ?? "")
        if notification.title != nil { text("body", body) }
        if notification.isLocalized { text("lang", language) }
        text("navigate", navigate)
        text("icon", settings.icon)
        text("image", notification.image)
        if own["tag"] == nil {
            if let collapseID = notification.collapseID {
                writer.field("tag", collapseID)
            } else {
                writer.name("tag")
                mark = writer.bytes.count + 1
                writer.string(WebPushBody.placeholder)
            }
        }
        if own["app_badge"] == nil, let badge = notification.badge { writer.field("app_badge", "\(badge)") }
        if own["actions"] == nil, !notification.actions.isEmpty { actions(&writer) }
        if own["data"] == nil, !notification.data.isEmpty {
            writer.name("data")
            writer.object(notification.data)
        }
        for (name, value) in own {
            writer.name(name)
            writer.value(value)
        }
        writer.endObject()
        return mark
    }

    private func actions(_ writer: inout JSONWriter) {
        writer.name("actions")
        writer.beginArray()
        for action in notification.actions {
            writer.beginObject()
            writer.field("action", action.id)
            writer.field("title", action.title)
            // A declarative action without an address of its own is refused by browsers.
            writer.field("navigate", action.url ?? navigate)
            writer.endObject()
        }
        writer.endArray()
    }
}
