package import ChaparDelivery
package import ChaparCore
package import ChaparComposition

/// The backends' payload checks for the plans of a notification, before it is accepted.
///
/// A fault at the first backend of a plan refuses the notification. At a later backend it is a warning: the message can
/// still be sent, only this fallback cannot take it. For an audience, whose devices are not known yet, a fault refuses
/// the notification when every backend has one; else it is a warning, and the fan-out skips the devices that no other
/// backend reaches. Called by ``NotificationIntake``; no request goes to a platform.
package struct PayloadInspection {
    /// The fields that platforms would drop or change, and the fallbacks that cannot take the message.
    package private(set) var warnings: [Finding] = []

    /// Checks a notification; faults become issues, and so do warnings when the configuration is strict.
    package init(
        _ notification: PushNotification,
        for form: Recipient.Form,
        plans: [DeliveryPlan],
        gateway: GatewaySnapshot,
        isAudience: Bool = false,
        issues: inout RequestIssues
    ) {
        let isOnly = plans.count == 1 && plans[0].backends.count == 1
        let sent = Self.sent(notification, plans, gateway, &issues)
        var checked: [String] = []
        var (refusing, count): ([(name: String, faults: [Finding])], Int) = ([], 0)
        for plan in plans {
            for name in plan.backends where !checked.contains(name) {
                guard let backend = gateway.routing.backend(name) else { continue }
                if !isOnly { checked.append(name) }
                let finding = backend.check(sent, for: form)
                count += 1
                if isAudience, !finding.faults.isEmpty { refusing.append((name, finding.faults)) }
                for fault in finding.faults where !isAudience {
                    if plans.contains(where: { $0.backends.first == name }) {
                        issues.add(Self.naming(name, fault))
                    } else {
                        add(Self.naming(name, fault, prefix: "The fallback "))
                    }
                }
                for warning in finding.warnings { add(Self.naming(name, warning)) }
            }
        }
        for (name, faults) in refusing {
            for fault in faults {
                var fault = Self.naming(name, fault)
                if refusing.count == count {
                    issues.add(fault)
                } else {
                    fault.detail += " Devices that no other backend reaches get nothing."
                    add(fault)
                }
            }
        }
        for (name, value) in notification.data where value.isRounded {
            warnings.append(Self.rounded("#/content/data/\(pointerStep(name))"))
        }
        for (kind, members) in notification.overrides {
            let value = JSONValue.object(members)
            guard value.isRounded else { continue }
            warnings.append(Self.rounded(value.pointerToRounded(from: "#/overrides/\(pointerStep(kind))")))
        }
        if let title = notification.title { warn(of: title, "title") }
        if let body = notification.body { warn(of: body, "body") }
        if gateway.configuration.queue.payloadCheck == .strict {
            for warning in warnings { issues.add(warning) }
        }
        for position in warnings.indices { warnings[position] = issues.whole(warnings[position]) }
    }

    /// Returns the notification as it goes out: with the id of a receipt, where the app sends receipts.
    private static func sent(
        _ notification: PushNotification,
        _ plans: [DeliveryPlan],
        _ gateway: GatewaySnapshot,
        _ issues: inout RequestIssues
    ) -> PushNotification {
        let receipts = gateway.configuration.receipts
        guard !receipts.isEmpty, let backend = plans.first?.backends.first,
            let app = gateway.app(ofBackend: backend), receipts[app] != nil
        else { return notification }
        let key = PushNotification.receiptKey
        if notification.data[key] != nil {
            let detail = "\"\(key)\" is reserved: it has the id with which the app reports what it received."
            issues.add("#/content/data/\(key)", "reserved_key", detail)
        }
        return notification.withReceiptSample
    }

    private static func rounded(_ pointer: String) -> Finding {
        let detail = "A number beyond 64 bits is rounded: send it as a text."
        return Finding(pointer: pointer, code: "number_rounded", detail: detail)
    }

    /// Adds a warning once, even when several plans report it.
    private mutating func add(_ warning: Finding) {
        if !warnings.contains(warning) { warnings.append(warning) }
    }

    /// Warns of a text that is empty in some language, or has blanks alone: most phones show nothing for it, or an
    /// empty line.
    private mutating func warn(of text: LocalizedText, _ field: String) {
        let language: String?
        switch text {
        case .plain(let text):
            guard text.showsNothing else { return }
            language = nil
        case .localized(let fallback, let languages):
            let isEmpty = fallback.showsNothing
            guard isEmpty || languages.values.contains(where: \.showsNothing) else { return }
            language = isEmpty ? "default" : languages.filter(\.value.showsNothing).keys.min()
        }
        let detail = "The text is empty: leave it out, or give one."
        let step = language.map { "/\($0.jsonPointerStep)" } ?? ""
        warnings.append(Finding(pointer: "#/content/\(field)\(step)", code: "empty_text", detail: detail))
    }

    private static func naming(_ backend: String, _ finding: Finding, prefix: String = "") -> Finding {
        var finding = finding
        finding.detail = "\(prefix)\(backend): \(finding.detail)"
        return finding
    }
}

extension JSONValue {
    /// Whether it is, or holds, a whole number that fits no signed integer of 64 bits, so that it was rounded.
    fileprivate var isRounded: Bool {
        switch self {
        case .double(let number): abs(number) >= 0x1p63
        case .array(let values): values.contains(where: \.isRounded)
        case .object(let members): members.contains { $0.value.isRounded }
        case .null, .bool, .integer, .string: false
        }
    }

    /// Returns the pointer to the first rounded number in it; `pointer` is its own.
    fileprivate func pointerToRounded(from pointer: String) -> String {
        switch self {
        case .array(let values):
            guard let index = values.firstIndex(where: \.isRounded) else { return pointer }
            return values[index].pointerToRounded(from: "\(pointer)/\(index)")
        case .object(let members):
            guard let member = members.first(where: { $0.value.isRounded }) else { return pointer }
            return member.value.pointerToRounded(from: "\(pointer)/\(pointerStep(member.name))")
        case .null, .bool, .integer, .double, .string: return pointer
        }
    }
}

extension String {
    /// Whether a phone shows nothing for the text: it has no character, or blanks and marks without width alone.
    fileprivate var showsNothing: Bool {
        guard let first = utf8.first else { return true }
        // Most texts begin with a letter of ASCII, which needs no look into Unicode's tables.
        if (0x21...0x7E).contains(first) { return false }
        return unicodeScalars.allSatisfy {
            $0.properties.isWhitespace || $0 == "\u{200B}" || $0 == "\u{2060}" || $0 == "\u{FEFF}"
        }
    }
}
