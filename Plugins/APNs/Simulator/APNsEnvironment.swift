public import ChaparSimulator

/// The two environments of APNs: device tokens and keys of one are unknown in the other.
@nonexhaustive
public enum APNsEnvironment: String, Sendable, Hashable, CaseIterable {
    /// Builds run from Xcode; Apple's `api.sandbox.push.apple.com`.
    case development
    /// App Store, TestFlight, enterprise; Apple's `api.push.apple.com`.
    case production
}

/// A listener of the APNs simulator.
@nonexhaustive
public enum APNsListener: String, Sendable, Hashable, CaseIterable {
    /// Device sends and broadcasts, development.
    case development
    /// Device sends and broadcasts, production.
    case production
    /// Channel management, development.
    case developmentManagement = "development_management"
    /// Channel management, production.
    case productionManagement = "production_management"

    /// The environment it belongs to.
    public var environment: APNsEnvironment {
        switch self {
        case .development, .developmentManagement: .development
        case .production, .productionManagement: .production
        }
    }

    /// Its name in fault rules.
    var name: SandboxListener { SandboxListener(rawValue: rawValue) }

    /// Whether it manages channels; otherwise it takes sends.
    public var isManagement: Bool { self == .developmentManagement || self == .productionManagement }
}

extension SandboxListener {
    /// Device sends and broadcasts of APNs, development.
    public static let development = APNsListener.development.name
    /// Device sends and broadcasts of APNs, production.
    public static let production = APNsListener.production.name
    /// Channel management of APNs, development.
    public static let developmentManagement = APNsListener.developmentManagement.name
    /// Channel management of APNs, production.
    public static let productionManagement = APNsListener.productionManagement.name
}

/// The topics that a credential may push to.
@nonexhaustive
public enum APNsTopics: Sendable, Hashable {
    /// All topics of the team.
    case all
    /// These bundle ids, each with every suffix (`.voip`, `.push-type.liveactivity` and so on).
    case only(Set<String>)

    /// Returns whether a topic is allowed: as it stands, or as a bundle id with a suffix of APNs.
    func allows(_ topic: String, bundleID: String) -> Bool {
        switch self {
        case .all: true
        case .only(let topics): topics.contains(topic) || topics.contains(bundleID)
        }
    }
}
