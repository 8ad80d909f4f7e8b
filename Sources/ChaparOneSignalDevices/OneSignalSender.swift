public import ChaparCore

/// Makes the backend that sends to the devices whose records are in a store.
///
/// The plugin that registers the devices calls it once, with its context and its store.
public typealias OneSignalSender =
    @Sendable (BackendContext, any PlayerStore) throws(HTTPPoolError) -> any PushBackend

/// Reads the section of a configuration file that describes a sender.
///
/// `ChaparOneSignal` has one, `.oneSignal`; the program's list of platforms passes it to IDPush. So neither plugin
/// imports the other, and each can be deleted.
public struct OneSignalSenderFactory: Sendable {
    /// Reads a section; nil after reporting at least one issue.
    public let read: @Sendable (ConfigSection) -> OneSignalSender?

    /// Makes a factory.
    public init(read: @escaping @Sendable (ConfigSection) -> OneSignalSender?) { self.read = read }
}
