public import ChaparCore

/// The result of a search by a ``TokenProviderChain``.
///
/// The chain returns it to callers that ask for the token, and passes it to `announce` when the token has changed. It
/// is a value: later searches do not change it.
public struct TokenAnswer: Sendable, Hashable {
    /// The token; nil when no provider has one.
    public var token: DeviceToken?
    /// The token that was seen before this one; nil when there was none.
    public var previous: DeviceToken?
    /// Whether the token was set by hand.
    public var isManual: Bool
    /// The providers that were asked before the one that gave the token, in this order, each with the reason why it
    /// gave no token.
    public var passedOver: [PassedOver]

    /// A provider that gave no token.
    public struct PassedOver: Sendable, Hashable {
        /// Its service.
        public var service: TokenService
        /// The reason.
        public var reason: Reason

        /// Makes an entry.
        public init(_ service: TokenService, _ reason: Reason) {
            self.service = service
            self.reason = reason
        }
    }

    /// The reason why a provider gave no token.
    @nonexhaustive
    public enum Reason: Sendable, Hashable {
        /// It has none for now.
        case none
        /// It did not answer within the chain's deadline; its call was left running.
        case timeout
        /// Its earlier call is still running; it was not asked again.
        case stillBusy
        /// It failed with this code.
        case failed(PushError.Code)
    }

    /// Whether the token differs from the one seen before, in text or service.
    public var isUpdate: Bool { token != nil && token != previous }

    /// Makes an answer.
    public init(
        token: DeviceToken?,
        previous: DeviceToken? = nil,
        isManual: Bool = false,
        passedOver: [PassedOver] = []
    ) {
        self.token = token
        self.previous = previous
        self.isManual = isManual
        self.passedOver = passedOver
    }
}

/// The result of a forced update.
public struct TokenRenewal: Sendable, Hashable {
    /// The result of deleting the old token at its platform.
    @nonexhaustive
    public enum Deletion: Sendable, Hashable {
        /// There was no token, or it was set by hand: nothing to delete.
        case nothing
        /// It is deleted.
        case deleted
        /// Its service cannot delete tokens (`ios-apns`).
        case unsupported
        /// It could not be deleted, for this reason.
        case failed(PushError.Code)
    }

    /// The result of deleting the old token.
    public var deletion: Deletion
    /// The token that was found afterwards.
    public var answer: TokenAnswer

    /// Makes a result.
    public init(_ deletion: Deletion, _ answer: TokenAnswer) {
        self.deletion = deletion
        self.answer = answer
    }
}
