internal import Foundation
internal import HTTPTypes
package import Hummingbird
package import Logging
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// `DELETE /v1/users/{id}`: removes the data that the gateway keeps of one user.
package struct UserErasureAPI: Sendable {
    let state: GatewayState
    let erasures: UserErasures
    let logger: Logger

    /// Creates the endpoint; `erasures` continues an erasure that outlasts its request.
    package init(state: GatewayState, erasures: UserErasures, logger: Logger) {
        self.state = state
        self.erasures = erasures
        self.logger = logger
    }

    /// Erases the user; answers with the counts of removed data, and with the data that stays.
    package func erase(_ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters(["app"])
        let app = try scope.app()
        // An erasure also ends notifications of other keys, through every backend of the app.
        guard scope.snapshot.mayUseWhole(app, scope.caller) else { throw .reachesFurther("An erasure") }
        // Includes `anonymous`: a device may name it as its user, although a switch takes it for a log-out.
        let user = try UserSwitchAPI.checked(SyncEndpoint.decoded(step))
        guard let traces = state.traces else { throw .notFound("The store of this gateway cannot erase a user.") }
        let erased: UserErasure.Report?
        let hash: String
        do throws(StoreError) {
            (hash, erased) = try await erasures.erase(app.key(user), state, traces)
        } catch {
            throw Problem(ofDevices: error)
        }
        guard let report = erased else { throw .erasuresUnfinished }
        logger.notice(
            "a user was erased",
            metadata: [
                "user.hash": "\(hash)", "caller": "\(scope.caller.name)", "devices": .stringConvertible(report.devices),
                "complete": .stringConvertible(report.isComplete),
            ]
        )
        let store = state.snapshot.configuration.store
        var response = Response.json(report.isComplete ? .ok : .accepted) { report.write(to: &$0, store) }
        response.headers[.auditSubject] = hash
        return response
    }
}

extension UserErasure.Report {
    fileprivate func write(to writer: inout JSONWriter, _ store: GatewayConfiguration.Store) {
        writer.field("complete", isComplete)
        writer.field("devices", devices)
        writer.field("tokens", tokens)
        writer.name("deliveries")
        writer.beginObject()
        for (name, count) in [
            ("cancelled", deliveries.cancelled), ("in_flight", deliveries.inFlight), ("removed", deliveries.removed),
            ("anonymised", deliveries.anonymised),
        ] {
            writer.name(name)
            writer.integer(count)
        }
        writer.endObject()
        writer.field("events", events)
        writer.name("stays")
        writer.beginArray()
        for sentence in stays(store) { writer.string(sentence) }
        writer.endArray()
    }

    /// Returns the data of the user that still exists, and until when.
    private func stays(_ store: GatewayConfiguration.Store) -> [String] {
        var sentences: [String] = []
        if isSearching {
            let seconds = Int(clamping: UserErasures.longestSearch.inSeconds)
            sentences.append(
                "The search takes longer than \(seconds) seconds: the gateway goes on until everything is erased, and counts no more."
            )
        }
        if deliveries.inFlight > 0 {
            sentences.append(
                "\(deliveries.inFlight) deliveries are being sent: they are erased when that is over, within a minute."
            )
        }
        if deliveries.anonymised > 0 {
            let days = Int(clamping: store.retention.inSeconds / 86_400)
            sentences.append(
                "The content of notifications that others got as well stays until store.retention (\(days) days)."
            )
        }
        if pendingEntries > 0 {
            sentences.append("\(pendingEntries) changes of devices stay until the platforms were told of them.")
        }
        sentences.append(
            "Backups and copies of the store are untouched: remove those that hold the user, or erase again after restoring one."
        )
        sentences.append("The store's write-ahead log holds removed pages until it is overwritten.")
        sentences.append("What platforms and the callers' own systems hold is theirs to remove.")
        return sentences
    }
}
