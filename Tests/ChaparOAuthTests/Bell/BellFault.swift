import ChaparCore
import ChaparOAuth

/// A mistake of a foreign plugin of this shape that the kit did not find.
enum BellFault: String, Sendable, CaseIterable {
    /// The time to live is not sent.
    case noTimeToLive
    /// A message whose time has ended is sent.
    case sendsEnded
    /// A token that has ended is not replaced.
    case noRefresh
    /// Each attempt has a new tag, so that both copies stay on the screen.
    case newTag
    /// `Retry-After` is not read.
    case ignoresPause
    /// The texts stand in the XML as they are.
    case rawText
    /// The client's secret stands in the error of a refused credential.
    case showsSecret
    /// Any host gets the access token.
    case anyHost
    /// A message that was dropped counts as accepted.
    case believesDropped
    /// Everybody gets the default text.
    case oneLanguage

    /// How the promise begins that it breaks.
    var promise: String {
        switch self {
        case .noTimeToLive: "sends the time to live"
        case .sendsEnded: "refuses a message whose time to live"
        case .noRefresh: "replaces a credential that has ended"
        case .newTag: "sends the same request"
        case .ignoresPause: "waits as long"
        case .rawText: "brings any text"
        case .showsSecret: "parks when its credential is refused"
        case .anyHost: "sends nothing to an address"
        case .believesDropped: "takes a refusal under"
        case .oneLanguage: "speaks to each recipient"
        }
    }
}

/// The strategy of Bell, with the faults that are about credentials.
struct BellAuth: AuthStrategy {
    let credentials: OAuth2ClientCredentials
    let secret: Secret
    let fault: BellFault?

    func credential(for destination: HTTPEndpoint) async throws(PushError) -> AuthCredential {
        do throws(PushError) {
            return try await credentials.credential(for: destination)
        } catch {
            guard fault == .showsSecret else { throw error }
            throw PushError(error.code, "\(error.message) (client_secret \(secret.reveal()))", reason: error.reason)
        }
    }

    func refused(_ credential: AuthCredential, status: Int, reason: String?) async -> AuthDecision {
        if fault == .noRefresh { return .giveUp("Bell refused the access token.") }
        return await credentials.refused(credential, status: status, reason: reason)
    }

    func covers(_ endpoint: HTTPEndpoint, path: String) -> Bool { credentials.covers(endpoint, path: path) }
}
