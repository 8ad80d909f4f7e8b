import PushGateway

/// The version that this program tells: the gateway's own, so that there is one place to change it.
enum Version {
    static let text = BuildInfo.current.version
}
