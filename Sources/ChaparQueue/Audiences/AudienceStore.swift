package import ChaparCore

/// A part of the registry by device numbers, evaluated for an audience.
package struct AudienceWindow: Sendable {
    /// The devices that get the message, by their numbers.
    package var devices: [AudienceSubject]
    /// The number of matched devices that get no message, by cause.
    package var skipped: [AudienceSkip: Int]
    /// The highest number that was evaluated: a later call continues after it.
    package var cursor: Int64
    /// Whether nothing is left up to the end that was asked for.
    package var isOver: Bool
    /// The number of candidates that were read: the rows of an index, or the devices where no index serves.
    package var rowsRead: Int
    /// The number of candidates that are devices of the audience's app: indexes have those of every app.
    package var evaluated = 0

    /// Makes a window.
    package init(
        devices: [AudienceSubject] = [],
        skipped: [AudienceSkip: Int] = [:],
        cursor: Int64,
        isOver: Bool = true,
        rowsRead: Int = 0
    ) {
        self.devices = devices
        self.skipped = skipped
        self.cursor = cursor
        self.isOver = isOver
        self.rowsRead = rowsRead
    }

    /// The number of matched devices.
    package var matched: Int { devices.count + skipped.values.reduce(0, +) }
}

/// The index entries that contain each device that may match, by which a window is read.
///
/// It is made once for an audience (``AudienceStore/plan(_:)``) and used for each window. A bad choice costs more
/// reads, but does not change the result.
package struct AudiencePlan: Sendable, Hashable {
    /// An entry of an index by device numbers.
    package enum Source: Sendable, Hashable {
        /// The devices with a tag.
        case tag(String)
        /// The devices with a label (``AudienceLabel``): a tag of the user, or a segment with a list of members.
        case label(String)
    }

    /// The audience.
    package var audience: Audience
    /// The entries whose union has every device that may match; nil when each device must be read.
    package var sources: [Source]?
    /// About how many devices the sources have; nil when each device must be read.
    package var candidates: Int64?
    /// The buckets of the devices that a wave is for (``bucket(of:)``); nil for every device.
    ///
    /// A device outside these buckets is in no window, and does not count as skipped.
    package var wave: Range<Int64>?
    /// Whether the devices of a window are soon read again, right before messages are sent to them.
    ///
    /// A store may keep them in memory until then (``AudienceStore/subjects(_:)``).
    package var isForSends = false

    /// Makes a plan.
    package init(_ audience: Audience, sources: [Source]?, candidates: Int64? = nil) {
        self.audience = audience
        self.sources = sources
        self.candidates = candidates
    }

    /// Returns the bucket of a device, from 0 to 9,999: always the same one, and each about as large.
    package static func bucket(of device: String) -> Int64 { Int64(StableHash.of(device) % 10_000) }
}

/// A store of what audiences are made of: tags of users, lists, segments; and the walk over the registry by device
/// numbers.
///
/// A device's number is unique, grows with each registration and never changes; a device that is deleted and registered
/// again gets a new one. Every implementation makes these promises:
/// * ``window(_:after:through:limit:)`` evaluates each device with a number in the range once, as it is in one
///   snapshot, in the order of the numbers. Two ranges that do not overlap never return the same device.
/// * Its result for each device is that of ``Audience/verdict(_:)``. * With sources it reads no device outside them. *
/// What belongs to a user applies to each of the user's devices, and goes with the device to its next user in the
///   commit that changes the user.
package protocol AudienceStore: Sendable {
    /// Returns the highest number of a device now, 0 in an empty registry: the frozen end of a walk.
    func lastDeviceNumber() async throws(StoreError) -> Int64

    /// Chooses the cheapest sources for an audience by the counts of tags and labels.
    func plan(_ audience: Audience) async throws(StoreError) -> AudiencePlan

    /// Evaluates the devices with numbers above `start` and up to `end`.
    ///
    /// - Parameters:
    ///   - plan: The audience with its sources.
    ///   - start: The number after which it begins.
    ///   - end: The last number.
    ///   - limit: The most candidates that are read in one call, at least 1; then ``AudienceWindow/isOver`` is false
    ///     and the walk continues at ``AudienceWindow/cursor``.
    /// - Returns: The devices that get the message, and counts of the others that are matched.
    /// - Throws: The store's failure.
    func window(
        _ plan: AudiencePlan,
        after start: Int64,
        through end: Int64,
        limit: Int
    ) async throws(StoreError) -> AudienceWindow

    /// Returns the current facts of the devices with these ids, by id; ids without a device are left out.
    ///
    /// It is used for the check before a send (``Audience/verdict(_:)``). It always returns a change whose call has
    /// returned, also where the store keeps the devices of a window in memory (``AudiencePlan/isForSends``).
    func subjects(_ ids: [String]) async throws(StoreError) -> [String: AudienceSubject]

    // MARK: Labels

    /// Returns the labels of a user, sorted.
    func labels(ofUser user: String) async throws(StoreError) -> [String]

    /// Adds and removes labels in one commit.
    ///
    /// - Parameter changes: At most ``AudienceLabel/maximumChanges``, each of another subject.
    /// - Returns: The subjects that were changed or need no change, without devices that the registry does not have.
    /// - Throws: The store's failure.
    func relabel(_ changes: [LabelChange]) async throws(StoreError) -> Set<LabelChange.Subject>

    /// Returns up to `limit` subjects with a label: of devices for ``AudienceLabel/isOfDevice(_:)``, else of users, in
    /// the order of their ids, after one.
    func members(of label: String, after id: String?, limit: Int) async throws(StoreError) -> [String]

    /// Returns up to `limit` labels of an app, after one, with the number of devices that have them: tags
    /// (``AudienceLabel/tag(_:)``), then tags of users, then segments.
    func labelCounts(in app: AppName, after label: String?, limit: Int) async throws(StoreError) -> [LabelCount]
}
