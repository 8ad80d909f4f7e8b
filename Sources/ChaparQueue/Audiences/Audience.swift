package import ChaparCore

/// The devices that a message is for: a rule, and all conditions beside it, such as `exclude` and the list.
///
/// A device is *matched* when it is of the app and the rule holds. A matched device is *skipped* for a cause of
/// ``AudienceSkip``, or gets the message. The value has no names of stored rules: ``rule`` and ``exclude`` have the
/// segments' rules in their place. So a later change of a segment does not change the audience of a running campaign.
/// Segments that are lists of members stay leaves of the rule, and are read when a device is checked.
package struct Audience: Sendable, Hashable {
    /// A list that the message is about (`options.list`), from which users may opt out.
    package struct List: Sendable, Hashable {
        /// The name.
        package var name: String
        /// Whether users who chose nothing, and devices without a user, get its messages.
        package var isDefault: Bool

        /// Makes a value.
        package init(_ name: String, isDefault: Bool) {
            self.name = name
            self.isDefault = isDefault
        }
    }

    /// The app.
    package var app: AppName
    /// The rule.
    package var rule: AudienceRule
    /// The devices that never get the message; nil without any.
    package var exclude: AudienceRule?
    /// The list; nil for a message that reaches all.
    package var list: List?
    /// The services of the app's configured backends, sorted: a device needs a live token of one.
    package var services: [String]
    /// The moment from which spans such as `seen_within` count, in milliseconds since 1970.
    package var moment: Int64

    /// Makes an audience; the rules name no segments that are rules themselves.
    package init(
        app: AppName,
        rule: AudienceRule,
        exclude: AudienceRule? = nil,
        list: List? = nil,
        services: [String],
        moment: Int64
    ) {
        self.app = app
        self.rule = rule
        self.exclude = exclude
        self.list = list
        self.services = Set(services).sorted()
        self.moment = moment
    }

    /// Returns whether a device is matched, and the cause for which it is skipped.
    package func verdict(_ subject: AudienceSubject) -> AudienceVerdict {
        guard subject.device.app == app else { return .unmatched }
        let facts = subject.facts(at: moment)
        guard rule.matches(facts) else { return .unmatched }
        if let exclude, exclude.matches(facts) { return .skipped(.excluded) }
        switch subject.standing {
        case .subscribed: break
        case .suspended: return .skipped(.suspended)
        case .unsubscribed: return .skipped(.unsubscribed)
        }
        if let list {
            let isIn = subject.lists[list.name] ?? list.isDefault
            guard isIn else { return .skipped(.optedOut) }
        }
        guard facts.hasLiveToken(of: services) else { return .skipped(.noToken) }
        return .reached
    }

    /// The audience as JSON, the form that is stored.
    package var json: JSONValue {
        var object: JSONObject = ["app": .string(app.rawValue), "rule": rule.json, "moment": .integer(moment)]
        if let exclude { object["exclude"] = exclude.json }
        if let list { object["list"] = .array([.string(list.name), .bool(list.isDefault)]) }
        object["services"] = .array(services.map { .string($0) })
        return .object(object)
    }

    /// The bytes of ``json``.
    package var stored: [UInt8] { json.bytes }

    /// Reads ``stored``; nil for other bytes.
    package init?(stored: [UInt8]) {
        guard case .object(let object)? = try? JSONValue(parsing: stored), let app = object["app"]?.stringValue,
            let moment = object["moment"]?.integerValue, let json = object["rule"],
            let rule = AudienceRule(json: json),
            let services = object["services"]?.arrayValue
        else { return nil }
        var exclude: AudienceRule?
        if let json = object["exclude"] {
            guard let rule = AudienceRule(json: json) else { return nil }
            exclude = rule
        }
        var list: List?
        if let json = object["list"] {
            guard let parts = json.arrayValue, parts.count == 2, let name = parts[0].stringValue,
                let isDefault = parts[1].boolValue
            else { return nil }
            list = List(name, isDefault: isDefault)
        }
        self.init(
            app: AppName(rawValue: app),
            rule: rule,
            exclude: exclude,
            list: list,
            services: services.compactMap(\.stringValue),
            moment: moment
        )
    }
}

/// A device with what its user and its segments add, as a store reads it for an audience.
package struct AudienceSubject: Sendable, Hashable {
    /// Its immutable number in the order of registration.
    package var number: Int64
    /// The device.
    package var device: Device
    /// The tags of its user.
    package var userTags: Set<ExactText>
    /// The segments with lists of members that it or its user belongs to.
    package var segments: Set<String>
    /// The lists that its user has chosen: true in, false out.
    package var lists: [String: Bool]
    /// Whether messages may go to it.
    package var standing: AudienceStanding

    /// Makes a subject.
    package init(
        number: Int64,
        device: Device,
        userTags: Set<ExactText> = [],
        segments: Set<String> = [],
        lists: [String: Bool] = [:],
        standing: AudienceStanding = .subscribed
    ) {
        self.number = number
        self.device = device
        self.userTags = userTags
        self.segments = segments
        self.lists = lists
        self.standing = standing
    }

    /// Returns what rules are evaluated on.
    package func facts(at moment: Int64) -> AudienceFacts {
        AudienceFacts(device, userTags: userTags, segments: segments, moment: moment)
    }
}

/// Whether the messages of audiences may go to a device.
package enum AudienceStanding: String, Sendable, Hashable {
    case subscribed, suspended, unsubscribed
}

/// The cause for which a matched device gets no message.
package enum AudienceSkip: String, Sendable, Hashable, CaseIterable {
    /// It has no live token of a service that a configured backend takes.
    case noToken = "no_token"
    /// `exclude` holds for it.
    case excluded
    /// It is suspended.
    case suspended
    /// It is unsubscribed.
    case unsubscribed
    /// Its user is not on the message's list.
    case optedOut = "opted_out"
    /// Every backend that reaches the device would refuse the message. Only a campaign's window and a dry run find this
    /// cause; a verdict never has it.
    case messageRefused = "message_refused"
}

/// Whether a device is of an audience.
package enum AudienceVerdict: Sendable, Hashable {
    /// The rule does not hold, or the device is of another app.
    case unmatched
    /// The device is matched and gets no message.
    case skipped(AudienceSkip)
    /// The device gets the message.
    case reached
}
