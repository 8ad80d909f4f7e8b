package import Foundation
package import ChaparCore

/// An endpoint as a store has it: who owns it and its settings, whose form the gateway defines.
package struct StoredWebhook: Sendable, Hashable {
    /// The name, which no other endpoint of the store has.
    package var name: String
    /// The app whose events it gets; empty for an operator's endpoint, which gets the events of all apps.
    package var app: String
    /// The number of the change that made this form; each change of an endpoint has a higher one.
    package var revision: Int64
    /// The settings.
    package var settings: [UInt8]

    package init(name: String, app: String, revision: Int64 = 0, settings: [UInt8]) {
        (self.name, self.app, self.revision, self.settings) = (name, app, revision, settings)
    }
}

/// The progress of an endpoint through the event log.
package struct WebhookProgress: Sendable, Hashable {
    /// The number of the last event that is delivered, kept as a message, or not wanted.
    package var cursor: Int64
    /// The sender's memory of the endpoint: failures, pauses, its last attempts.
    ///
    /// The gateway defines the form.
    package var memory: [UInt8]

    package init(cursor: Int64, memory: [UInt8] = []) { (self.cursor, self.memory) = (cursor, memory) }
}

/// A message to an endpoint that was not delivered at its first attempt, a batch, or a span of events to send again.
///
/// It holds numbers of events and no content: what an erasure removes from the log is in no later attempt.
package struct WebhookMessage: Sendable, Hashable {
    /// The state of a message.
    package enum State: Int64, Sendable {
        /// It is to be sent, from ``WebhookMessage/due`` on.
        case open = 0
        /// It is given up; only a request sends it again.
        case failed = 1
    }

    /// The `webhook-id`, which every attempt has.
    package var id: String
    /// The number of its first event, in whose order messages are sent.
    package var number: Int64
    package var state: State
    /// The steady time of the next attempt; of a failed message the time when it was given up.
    package var due: Date
    /// The events, the attempts so far.
    ///
    /// The gateway defines the form.
    package var record: [UInt8]

    package init(id: String, number: Int64, state: State, due: Date, record: [UInt8]) {
        (self.id, self.number, self.state, self.due, self.record) = (id, number, state, due, record)
    }
}

/// Changes of an endpoint's progress and messages, for one commit.
package struct WebhookChange: Sendable, Hashable {
    /// The endpoint.
    package var name: String
    /// The holder of the endpoint's lease, without which nothing is changed; nil for changes that need no lease.
    package var holder: String?
    /// The progress; nil leaves it as it is.
    package var progress: WebhookProgress?
    /// The messages that are added or replaced.
    package var kept: [WebhookMessage]
    /// The ids of messages that are removed.
    package var removed: [String]

    package init(
        name: String,
        holder: String?,
        progress: WebhookProgress? = nil,
        kept: [WebhookMessage] = [],
        removed: [String] = []
    ) {
        self.name = name
        self.holder = holder
        self.progress = progress
        self.kept = kept
        self.removed = removed
    }
}

/// The messages of an endpoint, by state.
package struct WebhookCounts: Sendable, Hashable {
    package var open = 0
    package var failed = 0

    package init(open: Int = 0, failed: Int = 0) { (self.open, self.failed) = (open, failed) }
}

/// A store of webhook endpoints, of their cursors in the event log, and of messages that wait for another attempt.
///
/// One gateway at a time sends to an endpoint: it holds the endpoint's lease, and every change it makes names the
/// holder. A change under a lease that another gateway holds changes nothing. Times are those of the store's steady
/// clock. The conformance suite of `ChaparStoreContract` checks these promises.
package protocol WebhookStore: Sendable {
    /// Returns all endpoints, in the order of their names.
    func webhooks() async throws(StoreError) -> [StoredWebhook]

    /// Adds or replaces an endpoint; a new one begins after the newest event.
    ///
    /// - Parameters:
    ///   - webhook: The endpoint; its revision is not used.
    ///   - revision: The revision that is replaced; nil adds an endpoint.
    /// - Returns: The new revision; nil, without a change, when the endpoint has another revision, is gone, or, for an
    ///   endpoint to add, exists.
    /// - Throws: The store's error; it is unknown then whether the endpoint was changed.
    func saveWebhook(_ webhook: StoredWebhook, replacing revision: Int64?) async throws(StoreError) -> Int64?

    /// Removes an endpoint with its messages; returns false when there is none.
    func removeWebhook(_ name: String) async throws(StoreError) -> Bool

    /// Takes or extends the lease of an endpoint for `span`.
    ///
    /// - Returns: The progress; nil when another holder has the lease, or there is no such endpoint.
    func holdWebhook(_ name: String, holder: String, for span: Duration) async throws(StoreError) -> WebhookProgress?

    /// Ends a lease; one that another holder has stays.
    func releaseWebhook(_ name: String, holder: String) async throws(StoreError)

    /// Writes a change, all of it in one commit.
    ///
    /// - Returns: False, without a change, when the holder does not have the lease any more or the endpoint is gone.
    func changeWebhook(_ change: WebhookChange) async throws(StoreError) -> Bool

    /// Returns the progress of an endpoint; nil when there is none of this name.
    func webhookProgress(_ name: String) async throws(StoreError) -> WebhookProgress?

    /// Returns messages of a state: open ones that are due by a time in the order of their due times, failed ones that
    /// were given up at or after a time, oldest first.
    func webhookMessages(
        of name: String,
        _ state: WebhookMessage.State,
        at moment: Date,
        limit: Int
    ) async throws(StoreError) -> [WebhookMessage]

    /// Returns the open message with the lowest event number; nil when none is open.
    func firstOpenWebhookMessage(of name: String) async throws(StoreError) -> WebhookMessage?

    /// Returns a message; nil when there is none of this id.
    func webhookMessage(_ id: String, of name: String) async throws(StoreError) -> WebhookMessage?

    /// Returns the time at which the next open message is due; nil when none is open.
    func nextWebhookMessage(of name: String) async throws(StoreError) -> Date?

    /// Returns the number of an endpoint's messages.
    func webhookCounts(of name: String) async throws(StoreError) -> WebhookCounts

    /// Removes failed messages that were given up before a time, at most `limit`; returns how many.
    func purgeWebhookMessages(before moment: Date, limit: Int) async throws(StoreError) -> Int
}
