internal import ChaparDelivery
internal import ChaparCore

/// The reader of `content`: the texts and data that a notification shows and carries.
///
/// Called by ``NotificationReader``. It checks types and sizes; what a platform supports is checked by
/// ``PayloadInspection``.
enum ContentReader {
    private static let maximumActions = 10
    private static let maximumNameBytes = 256
    private static let maximumURLBytes = 4096

    private enum Field: Int, RequestField {
        case title, subtitle, body, image, sound, badge, category, clickURL, actions, data
        static let names = [
            "title", "subtitle", "body", "image", "sound", "badge", "category", "click_url", "actions", "data",
        ]
        static let foreign = [
            "text": "body", "message": "body", "alert": "body", "heading": "title", "icon": "image",
            "url": "click_url", "link": "click_url", "buttons": "actions",
        ]
    }

    private enum ActionField: Int, RequestField {
        case id, title, url
        static let names = ["id", "title", "url"]
    }

    /// Reads the next value, an object.
    ///
    /// Nil for `limits` accepts any size, for content that was checked before.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        limits: ContentLimits?,
        into notification: inout PushNotification
    ) throws(JSONSyntaxError) {
        try scanner.fields(Field.self, &issues, "#/content") { (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .title: notification.title = try localized(&scanner, &issues, limits, "title")
            case .subtitle: notification.subtitle = try localized(&scanner, &issues, limits, "subtitle")
            case .body: notification.body = try localized(&scanner, &issues, limits, "body")
            case .image:
                notification.image = try url(&scanner, &issues, "#/content/image", isWebOnly: true)
            case .sound:
                notification.sound = try scanner.identifier(&issues, "#/content/sound", limit: maximumNameBytes)
            case .badge:
                notification.badge = try scanner.integer(in: 0...Int(Int32.max), &issues, "#/content/badge")
            case .category:
                notification.category = try scanner.identifier(&issues, "#/content/category", limit: maximumNameBytes)
            case .clickURL:
                notification.clickURL = try url(&scanner, &issues, "#/content/click_url", isWebOnly: false)
            case .actions: notification.actions = try actions(&scanner, &issues)
            case .data:
                notification.data = try scanner.tree(limits, &issues, "#/content/data") ?? JSONObject()
            }
        }
    }

    /// Reads a string, or a map from language tag to string with a `default`.
    private static func localized(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ limits: ContentLimits?,
        _ field: StaticString
    ) throws(JSONSyntaxError) -> LocalizedText? {
        guard try scanner.peek() == .object else {
            guard try scanner.expect(.string, "a string or a map of languages", &issues, "#/content/\(field)") else {
                return nil
            }
            return try text(&scanner, &issues, limits, "#/content/\(field)").map { .plain($0) }
        }
        var languages: [String: String] = [:]
        var count = 0
        var isSound = true
        try scanner.object { (scanner, language) throws(JSONSyntaxError) in
            count += 1
            guard limits == nil || count <= ContentLimits.languages else { return try scanner.skip() }
            let pointer = "#/content/\(field)/\(pointerStep(language))"
            if language.isEmpty || languages[language] != nil {
                isSound = false
                issues.add(pointer, "invalid_language", "Language tags are not empty and stand here once each.")
            }
            if limits != nil, language.utf8.count > ContentLimits.languageTagBytes {
                isSound = false
                issues.add(
                    pointer,
                    "invalid_language",
                    "A language tag has at most \(ContentLimits.languageTagBytes) bytes; it has \(language.utf8.count)."
                )
                return try scanner.skip()
            }
            guard let text = try text(&scanner, &issues, limits, pointer) else {
                isSound = false
                return
            }
            languages[language] = text
        }
        if limits != nil, count > ContentLimits.languages {
            issues.add(
                "#/content/\(field)",
                "too_many_languages",
                "At most \(ContentLimits.languages) languages; there are \(count)."
            )
            return nil
        }
        guard let fallback = languages.removeValue(forKey: "default") else {
            if isSound {
                issues.add(
                    "#/content/\(field)/default",
                    "missing",
                    "A map of languages needs a \"default\" for devices of every other language."
                )
            }
            return nil
        }
        return .localized(default: fallback, languages: languages)
    }

    /// Reads a text within limits.
    private static func text(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ limits: ContentLimits?,
        _ pointer: @autoclosure () -> String
    ) throws(JSONSyntaxError) -> String? {
        guard limits != nil else { return try scanner.text(&issues, pointer()) }
        let before = scanner.nulCount
        let text = try scanner.text(&issues, pointer(), limit: ContentLimits.textBytes)
        guard scanner.nulCount != before else { return text }
        issues.add(pointer(), "control_character", ContentLimits.noNUL)
        return nil
    }

    private static func actions(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> [PushNotification.Action] {
        var actions: [PushNotification.Action] = []
        var count = 0
        try scanner.elements(&issues, "#/content/actions") { (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= maximumActions else { return try scanner.skip() }
            guard let action = try action(&scanner, &issues, index) else { return }
            if actions.contains(where: { $0.id == action.id }) {
                issues.add("#/content/actions/\(index)/id", "repeated_id", "Another action has the same id.")
            }
            actions.append(action)
        }
        if count > maximumActions {
            issues.add(
                "#/content/actions",
                "too_many_actions",
                "At most \(maximumActions) actions; there are \(count)."
            )
        }
        return actions
    }

    private static func action(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ index: Int
    ) throws(JSONSyntaxError) -> PushNotification.Action? {
        let pointer = "#/content/actions/\(index)"
        var action = PushNotification.Action(id: "", title: "")
        var hasID = false
        var hasTitle = false
        let isObject = try scanner.fields(ActionField.self, &issues, pointer) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .id:
                hasID = true
                action.id = try scanner.identifier(&issues, pointer + "/id", limit: maximumNameBytes) ?? ""
            case .title:
                hasTitle = true
                action.title = try scanner.identifier(&issues, pointer + "/title", limit: maximumNameBytes) ?? ""
            case .url: action.url = try url(&scanner, &issues, pointer + "/url", isWebOnly: false)
            }
        }
        guard isObject else { return nil }
        if !hasID { issues.add(pointer + "/id", "missing", "An action needs an id, which the app is told.") }
        if !hasTitle { issues.add(pointer + "/title", "missing", "An action needs a title, which is shown.") }
        return hasID && hasTitle && !action.id.isEmpty ? action : nil
    }

    private static func url(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: @autoclosure () -> String,
        isWebOnly: Bool
    ) throws(JSONSyntaxError) -> String? {
        guard let text = try scanner.identifier(&issues, pointer(), limit: maximumURLBytes) else { return nil }
        if isWebOnly {
            guard WebAddress.isHTTPS(text) else {
                issues.add(pointer(), "invalid_url", "Must be an https address, such as https://example.com/a.png.")
                return nil
            }
        } else if !WebAddress.hasScheme(text) {
            issues.add(pointer(), "invalid_url", "Must begin with a scheme, such as https: or your app's own.")
            return nil
        }
        return text
    }
}
