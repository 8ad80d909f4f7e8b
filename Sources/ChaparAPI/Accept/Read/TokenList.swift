internal import Foundation
internal import Hummingbird
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The device tokens that a request addresses: tokens in its body, or those of devices and users of the registry.
///
/// Called by ``TopicsAPI``; ``TokensAPI`` uses its reader of single tokens. It reads the registry and never changes it.
struct TokenList: Sendable {
    /// One token, and its origin in the request.
    struct Entry: Sendable {
        var token: DeviceToken
        /// The index in the request's list.
        var index: Int
        /// The device that registered it, by its name in its app; nil for a token in the body.
        var device: String?
    }

    /// The most tokens of a request.
    static let maximum = AudienceReader.maximumRecipients

    /// The tokens, in the order of the request.
    var entries: [Entry] = []
    /// The number of devices without a token that the backend accepts.
    var missed = 0
    /// The warning about tokens that the request names twice.
    var warnings: [Finding] = []

    /// The tokens without their origin.
    var tokens: [DeviceToken] { entries.map(\.token) }

    private enum Field: Int, RequestField {
        case tokens, devices, users
        static let names = ["tokens", "devices", "users"]
    }

    private enum TokenField: Int, RequestField {
        case token, service
        static let names = ["token", "service"]
    }

    /// Reads a body that names tokens, devices or users.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - scope: Its scope.
    ///   - endpoint: The endpoint that reads bodies and has the registry.
    ///   - backend: The backend of the tokens.
    ///   - services: The services whose tokens count; a token without a service has the first.
    /// - Throws: The mistakes of the body, field by field; devices that the registry does not have.
    init<Ability>(
        _ request: Request,
        _ scope: RequestScope,
        _ endpoint: SyncEndpoint,
        for backend: AbleBackend<Ability>,
        of services: [TokenService]
    ) async throws(Problem) {
        var tokens: [Entry] = []
        var warnings: [Finding] = []
        var names: [String] = []
        var kind: Field?
        var fields = 0
        let reader = TokenReader(services: services, backend: backend.backend)
        try await endpoint.body(of: request, scope, Field.self, limit: .max) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            fields += 1
            guard fields == 1 else { return try scanner.skip() }
            kind = field
            switch field {
            case .tokens:
                tokens = try reader.list(&scanner, &issues, &warnings, "#/tokens", atMost: Self.maximum)
            case .devices, .users: names = try Self.names(&scanner, &issues, "#/\(Field.names[field.rawValue])")
            }
        } check: { issues in
            let names = Field.names.joined(separator: ", ")
            if fields == 0, issues.isEmpty { issues.add("#", "audience_missing", "Say whose tokens: \(names).") }
            if fields > 1 { issues.add("#", "audience_ambiguous", "Give exactly one of \(names).") }
        }
        entries = tokens
        self.warnings = warnings
        if let kind, kind != .tokens {
            try await lookUp(names, kind, endpoint.state.devices, backend.app, backend.name, services)
        }
    }

    private static func names(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> [String] {
        var names: [String] = []
        var count = 0
        let isArray = try scanner.elements(&issues, pointer) { (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= maximum else { return try scanner.skip() }
            let name = try scanner.identifier(&issues, "\(pointer)/\(index)", limit: Device.maximumNameBytes)
            if let name { names.append(name) }
        }
        if isArray { checkCount(count, maximum, pointer, &issues) }
        return names
    }

    fileprivate static func checkCount(
        _ count: Int,
        _ most: Int,
        _ pointer: String,
        _ issues: inout RequestIssues
    ) {
        if count == 0 { issues.add(pointer, "audience_empty", "Name at least one.") }
        if count > most { issues.add(pointer, "too_many_recipients", "At most \(most); there are \(count).") }
    }

    /// Adds the tokens of registered devices: those of the given services that the backend has not refused.
    private mutating func lookUp(
        _ names: [String],
        _ kind: Field,
        _ store: any DeviceStore,
        _ app: AppName,
        _ backend: String,
        _ services: [TokenService]
    ) async throws(Problem) {
        let pointer = "#/\(Field.names[kind.rawValue])"
        let keys = names.map(app.key)
        var issues = RequestIssues()
        var found: [(device: Device, index: Int)] = []
        do throws(StoreError) {
            if kind == .devices {
                let devices = try await store.devices(keys)
                for (index, key) in keys.enumerated() {
                    if let device = devices[key] {
                        found.append((device, index))
                    } else {
                        issues.add("\(pointer)/\(index)", "unknown_device", "The registry has no such device.")
                    }
                }
            } else {
                let positions = Dictionary(keys.enumerated().map { ($1, $0) }) { first, _ in first }
                for device in try await store.devices(ofUsers: keys, limit: Self.maximum + 1) {
                    if let index = device.user.flatMap({ positions[$0] }) { found.append((device, index)) }
                }
            }
        } catch {
            throw Problem(ofDevices: error)
        }
        for (device, index) in found {
            let own = device.tokens(of: services, usableBy: backend)
            if own.isEmpty { missed += 1 }
            entries += own.map { Entry(token: $0, index: index, device: device.name) }
        }
        if found.count > Self.maximum || entries.count > Self.maximum {
            let sentence = "They have more than \(Self.maximum) devices or tokens; ask in parts."
            issues.add(pointer, "too_many_recipients", sentence)
        } else if entries.isEmpty, issues.isEmpty {
            let names = services.map(\.rawValue).joined(separator: " or ")
            issues.add(pointer, "audience_empty", "None of their devices has a live token of \(names).")
        }
        guard issues.isEmpty else { throw Problem(issues) }
    }

    /// The reader of tokens in a request's body.
    struct TokenReader {
        /// The services whose tokens count, the first for tokens without one.
        let services: [TokenService]
        /// The backend that checks their form.
        let backend: any PushBackend

        /// Reads an array of tokens, each once; a warning counts the repeats.
        func list(
            _ scanner: inout JSONScanner,
            _ issues: inout RequestIssues,
            _ warnings: inout [Finding],
            _ pointer: String,
            atMost most: Int
        ) throws(JSONSyntaxError) -> [Entry] {
            var entries: [Entry] = []
            var seen: Set<DeviceToken> = []
            var count = 0
            var (repeats, first) = (0, 0)
            let isArray = try scanner.elements(&issues, pointer) { (scanner, issues, index) throws(JSONSyntaxError) in
                count = index + 1
                guard count <= most else { return try scanner.skip() }
                guard let token = try one(&scanner, &issues, "\(pointer)/\(index)") else { return }
                if seen.insert(token).inserted {
                    entries.append(Entry(token: token, index: index))
                } else {
                    if repeats == 0 { first = index }
                    repeats += 1
                }
            }
            if repeats > 0 {
                let detail =
                    repeats == 1
                    ? "This token is named before: it is used once."
                    : "From here on \(repeats) tokens are named before: each is used once."
                warnings.append(Finding(pointer: "\(pointer)/\(first)", code: "repeated_token", detail: detail))
            }
            if isArray { TokenList.checkCount(count, most, pointer, &issues) }
            return entries
        }

        /// Reads `{"token", "service"}`, or the token as a text.
        private func one(
            _ scanner: inout JSONScanner,
            _ issues: inout RequestIssues,
            _ pointer: String
        ) throws(JSONSyntaxError) -> DeviceToken? {
            if try scanner.peek() == .string {
                let text = try scanner.identifier(&issues, pointer, limit: AudienceReader.maximumTokenBytes)
                return text.flatMap { checked($0, nil, pointer, &issues) }
            }
            var member = SingleToken()
            let isObject = try scanner.fields(TokenField.self, &issues, pointer) {
                (scanner, issues, field) throws(JSONSyntaxError) in
                try member.read(&scanner, &issues, pointer, isService: field == .service)
            }
            guard isObject else { return nil }
            return token(member, pointer, &issues)
        }

        /// Returns the token of an object's members; nil after reporting a mistake.
        func token(_ member: SingleToken, _ pointer: String, _ issues: inout RequestIssues) -> DeviceToken? {
            if !member.hasValue { issues.add("\(pointer)/token", "missing", "The device token is missing.") }
            guard let value = member.value, !member.isServiceFaulty else { return nil }
            return checked(value, member.service, pointer, &issues)
        }

        private func checked(
            _ value: String,
            _ service: TokenService?,
            _ pointer: String,
            _ issues: inout RequestIssues
        ) -> DeviceToken? {
            guard let service = service ?? services.first else { return nil }
            guard services.contains(service) else {
                let names = services.map(\.rawValue).joined(separator: ", ")
                issues.add("\(pointer)/service", "wrong_service", "Here the services are: \(names).")
                return nil
            }
            let token = DeviceToken(value, service: service)
            do throws(InvalidToken) {
                return try [backend].checked(token)
            } catch {
                issues.add(pointer, "malformed_token", "This is no token of \(service): \(error.problem).")
                return nil
            }
        }
    }

    /// The members of an object that is a token.
    struct SingleToken {
        private(set) var hasValue = false
        private(set) var value: String?
        private(set) var service: TokenService?
        private(set) var isServiceFaulty = false

        /// Reads the next value, a member.
        mutating func read(
            _ scanner: inout JSONScanner,
            _ issues: inout RequestIssues,
            _ pointer: String,
            isService: Bool
        ) throws(JSONSyntaxError) {
            guard isService else {
                hasValue = true
                value = try scanner.identifier(&issues, "\(pointer)/token", limit: AudienceReader.maximumTokenBytes)
                return
            }
            isServiceFaulty = true
            guard let name = try scanner.text(&issues, "\(pointer)/service") else { return }
            service = TokenService.named(name)
            isServiceFaulty = service == nil
            if isServiceFaulty {
                issues.add("\(pointer)/service", "unknown_service", DeviceFieldRules.unknownService(name))
            }
        }
    }
}

extension Device {
    /// Returns the app's own tokens of some services, without those that are dead or that a backend has refused.
    func tokens(of services: [TokenService], usableBy backend: String) -> [DeviceToken] {
        tokens.filter { $0.kind == .device && services.contains($0.token.service) && $0.isUsable(by: backend) }
            .map(\.token)
    }
}

extension SyncEndpoint {
    private enum TokenField: Int, RequestField {
        case token, service
        static let names = ["token", "service"]
    }

    /// Reads a body that is one token: `{"token", "service"}`.
    func token<Ability>(
        of request: Request,
        _ scope: RequestScope,
        for backend: AbleBackend<Ability>,
        of services: [TokenService]
    ) async throws(Problem) -> DeviceToken {
        let reader = TokenList.TokenReader(services: services, backend: backend.backend)
        var member = TokenList.SingleToken()
        var token: DeviceToken?
        try await body(of: request, scope, TokenField.self) { (scanner, issues, field) throws(JSONSyntaxError) in
            try member.read(&scanner, &issues, "#", isService: field == .service)
        } check: { issues in
            token = reader.token(member, "#", &issues)
        }
        // Without a token there was an issue, so a problem was thrown before this.
        guard let token else { throw Problem(RequestIssues()) }
        return token
    }
}

extension JSONWriter {
    /// Writes the warnings about a list of tokens; nothing without any.
    mutating func warnings(_ warnings: [Finding]) {
        guard !warnings.isEmpty else { return }
        name("warnings")
        findings(warnings)
    }

    /// Writes the fields that identify a token of a request: its index, its device if it was registered, its service
    /// and fingerprint.
    mutating func members(of entry: TokenList.Entry) {
        field("index", entry.index)
        field("device", entry.device)
        field("service", entry.token.service.rawValue)
        field("fingerprint", TokenFingerprint.of(entry.token.value))
    }
}
