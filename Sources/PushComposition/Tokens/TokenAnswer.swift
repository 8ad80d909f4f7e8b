public import PushCore

/// What a ``TokenProviderChain`` found, and how.
///
/// The chain gives it to whoever asks for the token, and announces it when the token is another than before. A value:
/// it does not follow what the chain finds later.
public struct TokenAnswer: Sendable, Hashable {
    /// The token; nil when no provider has one.
    public var token: DeviceToken?
    /// The token that was seen before this one; nil when there was none.
    public var previous: DeviceToken?
    /// Whether the token was set by hand.
    public var isManual: Bool
    /// Why the providers before the one that gave the token were passed over, in the order they were asked.
    public var passedOver: [PassedOver]

    /// A provider that gave no token.
    public struct PassedOver: Sendable, Hashable {
        /// Its service.
        public var service: TokenService
        /// Why.
        public var reason: Reason

        /// Makes an entry.
        public init(_ service: TokenService, _ reason: Reason) {
            self.service = service
            self.reason = reason
        }
    }

    /// Why a provider gave no token.
    @nonexhaustive
    public enum Reason: Sendable, Hashable {
        /// It has none for now.
        case none
        /// It did not answer within the chain's deadline, and was left behind.
        case timeout
        /// It has been left behind before and still has not come back; it was not asked again.
        case stillBusy
        /// It failed; the code says how.
        case failed(PushError.Code)
    }

    /// Whether the token is another than the one seen before: another text, or of another service.
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

/// What a forced update did.
public struct TokenRenewal: Sendable, Hashable {
    /// What became of the old token at its platform.
    @nonexhaustive
    public enum Deletion: Sendable, Hashable {
        /// There was none, or it was set by hand: nothing to delete.
        case nothing
        /// It is deleted.
        case deleted
        /// Its service cannot delete tokens (`ios-apns`).
        case unsupported
        /// It could not be deleted; the code says why.
        case failed(PushError.Code)
    }

    /// What became of the old token.
    public var deletion: Deletion
    /// The token that was found afterwards.
    public var answer: TokenAnswer

    /// Makes a result.
    public init(_ deletion: Deletion, _ answer: TokenAnswer) {
        self.deletion = deletion
        self.answer = answer
    }
}
