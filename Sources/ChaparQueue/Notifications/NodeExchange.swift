public import Foundation
public import ChaparCore

/// A gateway that shares a store with others.
public struct StoreNode: Sendable, Hashable {
    /// The number, which no other node ever has.
    public var number: Int64
    /// The name in its configuration.
    public var name: String
    /// The start of the gateway, as a time of day.
    public var startedAt: Date
    /// The time for which others consider it alive without a renewal; negative when they no longer do.
    public var leaseLeft: Duration
    /// Whether it is the node that was asked.
    public var isSelf: Bool
    /// The backends of its configuration; nil when it has not declared them, like gateways of older versions.
    public var backends: Set<String>?

    /// Makes a value.
    public init(
        number: Int64,
        name: String,
        startedAt: Date,
        leaseLeft: Duration,
        isSelf: Bool,
        backends: Set<String>? = nil
    ) {
        self.backends = backends
        self.number = number
        self.name = name
        self.startedAt = startedAt
        self.leaseLeft = leaseLeft
        self.isSelf = isSelf
    }
}

/// A message from one gateway to the others that share its store.
public struct NodeNote: Sendable, Hashable {
    /// The subject.
    public var topic: String
    /// The content.
    public var body: [UInt8]

    /// Makes a note.
    public init(topic: String, body: [UInt8]) {
        self.topic = topic
        self.body = body
    }
}

/// A store that several gateways share, and through which they send each other facts that are not stored: a pause that
/// a platform asked for, counts of answers.
///
/// Notes are not stored: one that is sent while the database, or another node, is unreachable may be lost.
public protocol NodeExchange: Sendable {
    /// Returns the gateways that use the store now, in the order of their numbers.
    func nodes() async throws(StoreError) -> [StoreNode]

    /// Whether a node of ``nodes()`` whose lease is over may be considered dead now.
    ///
    /// It is cheap.
    ///
    /// It is false until this gateway has renewed its own lease without a gap for the length of a lease: the
    /// cause of the gap may have affected others as well.
    var mayJudge: Bool { get }

    /// Declares the backends of this gateway's configuration, replacing its last declaration.
    ///
    /// The declaration is kept until the gateway ends or is considered dead.
    ///
    /// When it throws, the declaration is repeated within a third of the node's lease.
    func declare(backends: Set<String>) async throws(StoreError)

    /// Sends a note to all other nodes within about a second; does not wait, and does nothing while there are none.
    func tell(_ note: NodeNote)

    /// Adds a listener for other nodes' notes.
    ///
    /// It gets each note once, and those of one node in order; it is called on any thread and must be quick.
    func hear(_ listener: @escaping @Sendable (NodeNote) -> Void)
}
