import Foundation
public import ChaparCore

/// Gives and checks the device tokens of `android-huawei` or `ios-huawei`, for code that gets them from an app.
public struct HMSTokenProvider: TokenDeleting {
    /// The service whose tokens it gives.
    public let service: TokenService

    private let deadline: Duration
    private let fetch: @Sendable () async throws -> String?
    private let remove: (@Sendable (DeviceToken) async throws -> Void)?

    /// Makes a provider of `android-huawei`.
    ///
    /// - Parameters:
    ///   - deadline: How long `fetch` or `delete` may take.
    ///   - fetch: Asks the app for its token; nil or an empty text when there is none for now.
    ///   - delete: Asks the app to delete its token.
    /// - Returns: A provider that has made no request yet.
    public static func android(
        deadline: Duration = .seconds(10),
        fetch: @escaping @Sendable () async throws -> String?,
        delete: (@Sendable (DeviceToken) async throws -> Void)? = nil
    ) -> HMSTokenProvider {
        HMSTokenProvider(service: .androidHuawei, deadline: deadline, fetch: fetch, remove: delete)
    }

    /// Makes a provider of `ios-huawei`.
    ///
    /// Huawei's iOS SDK makes its token from Apple's. While `apple` has none, this provider has none either, and a
    /// chain of providers asks the next.
    ///
    /// - Parameters:
    ///   - apple: The provider of `ios-apns`.
    ///   - deadline: How long `fetch` or `delete` may take; the SDK's call may block.
    ///   - fetch: Turns Apple's token into Huawei's.
    ///   - delete: Asks the app to delete its token. The SDK does not say whether the deletion succeeded.
    /// - Returns: A provider that has made no request yet.
    public static func iOS(
        apple: any TokenProvider,
        deadline: Duration = .seconds(10),
        fetch: @escaping @Sendable (DeviceToken) async throws -> String?,
        delete: (@Sendable (DeviceToken) async throws -> Void)? = nil
    ) -> HMSTokenProvider {
        HMSTokenProvider(
            service: .iOSHuawei,
            deadline: deadline,
            fetch: {
                guard let token = try await apple.token() else { return nil }
                return try await fetch(token)
            },
            remove: delete
        )
    }

    /// Returns the current token, byte for byte; nil when the app has none for now.
    ///
    /// Throws `PushError.Code.unavailable` when the app fails or does not answer within the deadline.
    public func token() async throws(PushError) -> DeviceToken? {
        try await AppToken.fetch(within: deadline, fetch) { text throws(InvalidToken) in try validate(text) }
    }

    /// Returns a text of 1 to 1024 printable characters without the blanks around it: Huawei's tokens have no pattern.
    public func validate(_ text: String) throws(InvalidToken) -> DeviceToken {
        let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        if let problem = HMSToken.problem(in: text) { throw InvalidToken(service, problem) }
        return DeviceToken(text, service: service)
    }

    /// Asks the app to delete its token.
    ///
    /// A return means that the app was asked, not that the token is gone.
    public func delete(_ token: DeviceToken) async throws(PushError) {
        guard token.service == service else {
            throw PushError(.invalidRequest, "a token of \(token.service) is not one of \(service)")
        }
        guard let remove else { throw PushError(.unsupported, "the provider was made without a way to delete tokens") }
        do {
            try await Deadline.run(deadline) { try await remove(token) }
        } catch let error as PushError {
            throw error
        } catch is Deadline.Passed {
            throw PushError(.unavailable, "the app did not delete the token within \(deadline.inSeconds) s")
        } catch {
            throw PushError(.unavailable, "the app could not delete the token")
        }
    }
}

extension HMSBackend {
    /// Huawei's verdict about a single token.
    @nonexhaustive
    public enum TokenVerdict: Sendable, Hashable {
        /// Huawei would accept a message to it.
        case good
        /// Huawei does not know it for this app. A wrong app or project looks the same.
        case dead
        /// Huawei's answer decides nothing.
        case unknown(reason: String)
    }

    /// Asks Huawei about a token with a message that is checked and not sent.
    public func verify(_ token: DeviceToken) async throws(PushError) -> TokenVerdict {
        guard !options.isHarmony else {
            throw PushError(.unsupported, "v3 has no message that is checked and not sent: tokens cannot be looked up")
        }
        guard audience.contains(.token(token)), HMSToken.problem(in: token.value) == nil else { return .dead }
        let probe = (try? JSONValue(parsing: HMSClient.probe(token: token.value))) ?? .null
        let (answer, _) = try await client.call(options.sendPath, probe)
        switch answer.code {
        case "80000000"?: return .good
        case "80300007"?: return .dead
        case let code?: return .unknown(reason: code)
        case nil: throw HMSRejections.error(answer)
        }
    }

    /// Deletes a device's token and its topics at Huawei, by the call of the older reference.
    ///
    /// Throws `PushError.Code.unsupported` without an app id.
    public func deleteToken(_ token: DeviceToken) async throws(PushError) {
        guard let appID = options.appID else {
            throw PushError(.unsupported, "deleting tokens needs app_id")
        }
        let (answer, _) = try await client.call("/v1/\(appID)/token:delete", ["token": .string(token.value)])
        guard answer.code == "80000000" || answer.code == "80300007" else { throw HMSRejections.error(answer) }
    }
}
