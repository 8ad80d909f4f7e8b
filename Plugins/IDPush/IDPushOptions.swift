import Foundation
public import ChaparCore
public import ChaparOneSignalDevices

/// How an IDPush project is reached.
public struct IDPushOptions: Sendable {
    /// The project's id: it gives the right to edit its devices, hence a secret.
    public var projectID: Secret
    /// The entitlement of tokens whose device does not say; only `development` makes a difference here.
    public var environment = OneSignalEnvironment.production
    /// Where IDPush listens.
    public var base = IDPushClient.address
    /// How to connect.
    public var common = CommonBackendOptions(timeout: .seconds(30))
    /// The most attempts of an action whose answer cannot be read.
    public var attempts = 3
    /// The pause after the first attempt; after the second it is twice as long, and so on.
    public var retryPause = Duration.seconds(1)
    /// The shortest time between two writes of one device.
    public var writeSpacing = Duration.seconds(1)

    /// Makes options; the id is trimmed.
    public init(projectID: Secret) { self.projectID = Secret(projectID.reveal().trimmed) }
}

extension IDPushOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let projectID = section.secret("project_id")
        if projectID == nil, !section.has("project_id") {
            section.missing("project_id", "the id that IDPush's panel gives")
        }
        self.init(projectID: projectID ?? Secret(""))
        environment = section.choice("environment", default: .production)
        (common, base) = section.connection(default: IDPushClient.address, connections: 4, timeout: .seconds(30))
        guard section.report.issues.count == before else { return nil }
    }
}

extension String {
    /// The text without white space and newlines at both ends.
    package var trimmed: String {
        var text = self[...]
        while text.first?.isWhitespace ?? false { text.removeFirst() }
        while text.last?.isWhitespace ?? false { text.removeLast() }
        return String(text)
    }
}
