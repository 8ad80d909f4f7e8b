/// The messages of a channel that a platform keeps for offline devices; fixed when the channel is made.
@nonexhaustive
public enum ChannelStorage: String, Sendable, CaseIterable {
    /// None: a message reaches only devices that are online.
    case none
    /// The newest message.
    case newest
}

/// Makes, reads, deletes and lists the broadcast channels that a platform keeps for an app.
///
/// Sending to a channel is an ordinary send to ``Recipient/platformID(_:)`` with the channel's id.
public protocol ChannelManager: Sendable {
    /// Makes a channel and returns its id.
    ///
    /// Every call makes another channel. If the answer is lost, the new channel exists all the same, and ``list()``
    /// shows it.
    func create(storage: ChannelStorage) async throws(PushError) -> String
    /// Returns the storage of a channel; nil when there is none with this id.
    func read(_ id: String) async throws(PushError) -> ChannelStorage?
    /// Deletes a channel; returns false when there was none with this id.
    @discardableResult
    func delete(_ id: String) async throws(PushError) -> Bool
    /// Returns the ids of all channels of the app.
    func list() async throws(PushError) -> [String]
}

extension ChannelManager {
    /// Makes a channel that keeps the newest message, and returns its id.
    public func create() async throws(PushError) -> String { try await create(storage: .newest) }
}
