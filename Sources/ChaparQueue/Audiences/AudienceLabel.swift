package import ChaparCore

/// The texts (labels) under which a store keeps tags, list choices and segments of users and devices for audiences.
///
/// Each label has an index by device numbers. The first letter is the kind. Labels of devices stay with the device.
/// Labels of users are copied to each device of the user, and are removed when the device changes its user.
package enum AudienceLabel {
    /// The most subjects of one change.
    package static let maximumChanges = 1_000

    /// A tag of a device; used in counts, since the index of tags has no prefix.
    package static func tag(_ name: String) -> String { "t:" + name }
    /// A tag of a user.
    package static func userTag(_ name: String) -> String { "u:" + name }
    /// A segment with a list of users.
    package static func users(_ segment: String, in app: AppName) -> String { "p:\(app)/\(segment)" }
    /// A segment with a list of devices.
    package static func devices(_ segment: String, in app: AppName) -> String { "d:\(app)/\(segment)" }
    /// A choice of a user about a list.
    package static func list(_ name: String, isIn: Bool) -> String { (isIn ? "l+" : "l-") + name }
    /// A standing other than subscribed, of a device.
    package static func standing(_ standing: AudienceStanding) -> String { "x:" + standing.rawValue }

    /// Every standing's label.
    package static let standings = [standing(.suspended), standing(.unsubscribed)]

    /// The kinds of users' labels, which devices inherit.
    package static let inherited: [Character] = ["u", "p", "l"]
    /// Whether devices inherit a label from their users.
    package static func isInherited(_ label: String) -> Bool { label.first.map(inherited.contains) ?? false }
    /// Whether a label is a device's own.
    package static func isOfDevice(_ label: String) -> Bool { label.hasPrefix("d:") || label.hasPrefix("x:") }
    /// Whether the devices with a label are counted: choices about lists and standings are not.
    package static func isCounted(_ label: String) -> Bool {
        label.hasPrefix("t:") || label.hasPrefix("u:") || label.hasPrefix("p:") || label.hasPrefix("d:")
    }

    /// Returns the name behind the kind.
    package static func name(_ label: String) -> String { String(label.dropFirst(2)) }
}

/// A change of the labels of a user or a device.
package struct LabelChange: Sendable, Hashable {
    /// The owner of the labels.
    package enum Subject: Sendable, Hashable {
        /// A user, by its key.
        case user(String)
        /// A device, by its key.
        case device(String)

        /// The key.
        package var id: String {
            switch self {
            case .user(let id), .device(let id): id
            }
        }
    }

    /// The owner.
    package var subject: Subject
    /// The labels that it has afterwards.
    package var added: [String]
    /// The labels that it does not have afterwards.
    package var removed: [String]

    /// Makes a change; no label is both added and removed.
    package init(_ subject: Subject, added: [String] = [], removed: [String] = []) {
        self.subject = subject
        self.added = added
        self.removed = removed
    }
}

/// A label with the number of devices that have it.
package struct LabelCount: Sendable, Hashable {
    /// The label.
    package var label: String
    /// The number of devices.
    package var devices: Int64

    /// Makes a count.
    package init(_ label: String, devices: Int64) {
        self.label = label
        self.devices = devices
    }
}

/// The changes of ``LabelCount`` that a commit makes, by app and label.
package struct LabelDeltas: Sendable {
    private struct Key: Hashable, Comparable {
        var app: AppName
        var label: ExactText
        static func < (one: Key, other: Key) -> Bool {
            if one.app != other.app { return one.app < other.app }
            return one.label.text.utf8.lexicographicallyPrecedes(other.label.text.utf8)
        }
    }

    private var counts: [Key: Int64] = [:]

    /// Makes empty deltas.
    package init() {}

    /// Adds to the count of a label, if it is counted.
    package mutating func add(_ number: Int64, _ label: String, in app: AppName) {
        guard AudienceLabel.isCounted(label) else { return }
        let key = Key(app: app, label: ExactText(label))
        counts[key] = (counts[key] ?? 0).adding(clamping: number)
    }

    /// The deltas that are not 0, in the order of app and label: the order in which they are written.
    package var sorted: [(app: AppName, label: String, number: Int64)] {
        counts.filter { $0.value != 0 }.sorted { $0.key < $1.key }.map { ($0.key.app, $0.key.label.text, $0.value) }
    }
}

extension AudienceSubject {
    /// Makes the subject of a device and its labels.
    package init(number: Int64, device: Device, labels: [String]) {
        self.init(number: number, device: device)
        for label in labels {
            let name = AudienceLabel.name(label)
            let bytes = label.utf8
            switch bytes.first {
            case UInt8(ascii: "u"): userTags.insert(ExactText(name))
            case UInt8(ascii: "p"), UInt8(ascii: "d"):
                // The app's name has no slash, a segment's neither.
                let slash = name.utf8.firstIndex(of: UInt8(ascii: "/"))
                segments.insert(slash.map { String(name[$0...].dropFirst()) } ?? "")
            case UInt8(ascii: "l"): lists[name] = bytes.dropFirst().first == UInt8(ascii: "+")
            case UInt8(ascii: "x"): standing = AudienceStanding(rawValue: name) ?? .subscribed
            default: break
            }
        }
    }
}

extension AppName {
    /// Makes the app of a user from the user's key.
    ///
    /// A key of the default app begins with a slash when the name has one.
    package init(ofUser key: String) {
        if key.utf8.first == UInt8(ascii: "/") { self = .default } else { self.init(ofDevice: key) }
    }
}
