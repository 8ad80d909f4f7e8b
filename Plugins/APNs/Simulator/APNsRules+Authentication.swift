internal import Foundation
internal import ChaparCore

extension APNsRules {
    /// Runs step 6: identifies the sender, and checks whether this connection may send for it.
    func authenticate(
        _ request: APNsRequest,
        _ token: APNsProviderToken?,
        now: Date,
        connection: inout APNsConnectionState,
        state: APNsState
    ) throws(APNsRefusal) {
        if let certificate = connection.certificate {
            // With a certificate the header is ignored.
            guard certificate.environments.contains(environment) else { throw .badCertificateEnvironment }
            let type = request.pushType.flatMap(APNsPushType.init(rawValue:))
            // Apple names no reason for this; `Forbidden` is its word for an action that is not allowed. Its sample of
            // a broadcast uses a certificate, so this applies to devices only.
            if type?.needsProviderToken == true, request.deviceToken != nil { throw .forbidden }
            return
        }
        guard request.authorization != nil else {
            throw connection.hasForeignCertificate ? .badCertificate : .missingProviderToken
        }
        if connection.isWedged { throw .expiredProviderToken }
        guard let token, let key = state.keys[token.keyID] else { throw .invalidProviderToken }
        try checkAge(of: token, now: now, connection: &connection)
        if let bound = connection.bound {
            guard bound.teamID == token.teamID else { throw .invalidProviderToken }
            guard bound.keyID == token.keyID || Self.areRelated(bound.keyID, token.keyID, state) else {
                throw .unrelatedKey
            }
        }
        guard key.environments.contains(environment) else { throw .wrongEnvironmentKey }
        try checkUpdate(to: token, now: now, connection: &connection)
    }

    private func checkAge(
        of token: APNsProviderToken,
        now: Date,
        connection: inout APNsConnectionState
    ) throws(APNsRefusal) {
        let age = now.timeIntervalSince1970 - Double(token.issuedAt)
        if age > options.maximumTokenAge.inSeconds {
            connection.isWedged = connection.wedgesAfterExpiry
            throw .expiredProviderToken
        }
        if -age > options.clockTolerance.inSeconds { throw .invalidProviderToken }
    }

    private func checkUpdate(
        to token: APNsProviderToken,
        now: Date,
        connection: inout APNsConnectionState
    ) throws(APNsRefusal) {
        if let current = connection.token {
            if current.issuedAt == token.issuedAt { return }
            if now.timeIntervalSince(current.since) < options.tokenUpdateWindow.inSeconds { throw .tooManyTokenUpdates }
        }
        connection.token = (token.issuedAt, now)
    }

    private static func areRelated(_ one: String, _ other: String, _ state: APNsState) -> Bool {
        state.keys[one]?.relatedKeyID == other || state.keys[other]?.relatedKeyID == one
    }
}
