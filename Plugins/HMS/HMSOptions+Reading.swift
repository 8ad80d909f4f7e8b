import Foundation
public import ChaparCore

extension HMSOptions {
    private enum Generation: String, CaseIterable { case v1, v2, v3 }

    /// Reads a section; nil after reporting everything that is wrong with it.
    ///
    /// `auth` makes the strategy that the key `auth` asks for instead of Huawei's credentials, from the options that
    /// every backend has.
    public init?(
        _ section: ConfigSection,
        auth: (ConfigSection, CommonBackendOptions) -> (any AuthStrategy)? = { _, _ in nil }
    ) {
        let before = section.report.issues.count
        let common = CommonBackendOptions(section, connections: 8, timeout: .seconds(15))
        let appID = Self.digits(section, "app_id", "the app's id: digits, from AppGallery Connect")
        let clientID = Self.digits(section, "client_id", "the id of the app's OAuth client: digits")
        let credential = Self.credential(section, clientID: clientID ?? appID) { auth(section, common) }
        var projectID = Self.digits(section, "project_id", "the project's id: digits, from AppGallery Connect")
        if projectID == nil, case .serviceAccount(let account)? = credential { projectID = account.projectID }
        let api = Self.api(section, appID: appID, projectID: projectID)
        if section.has("service_account_file"), section.has("client_id"), let api, !api.isHarmony {
            let keep = "Remove it: a service account is no client, and only v3 takes messages back by it."
            section.reject("client_id", "stands beside service_account_file", fix: keep)
        }
        let tokenEndpoint = section.endpoint("token_url")
        if !common.address.isPlatform, !section.has("token_url"), case .client? = credential {
            section.missing(
                "token_url",
                "where access tokens are fetched beside this base_url; Huawei's own is \(Self.tokenEndpoint)"
            )
        }
        for (key, scheme) in [("base_url", common.address.scheme), ("token_url", tokenEndpoint?.scheme)]
        where scheme == .http {
            section.reject(key, "Huawei speaks TLS only", fix: "Write https://…")
        }
        let batchSize = section.integer("batch_size", in: 1...1000, default: 500)
        let demotes = section.bool("demote_without_right", default: true)
        let userType = section.choice("ios_target_user_type", default: TargetUserType.formal)
        let badgeClass = section.string("badge_class")
        let written = section.string("default_category") ?? "MARKETING"
        let category = Suggestion.same(as: written, among: HMSScene.categories) ?? written
        if !HMSScene.categories.contains(category) {
            let known = HMSScene.categories.sorted()
            let nearest = Suggestion.nearest(to: category, among: known).map { "Did you mean \"\($0)\"? " } ?? ""
            section.reject(
                "default_category",
                "\"\(category)\" is not one of Huawei's",
                fix: "\(nearest)Allowed: \(known.joined(separator: ", "))."
            )
        }
        let broadcast = BroadcastRule(section)
        let receipts = section.section("receipts").flatMap { HMSReceiptOptions($0) }
        guard let credential, let api, section.report.issues.count == before else { return nil }
        self.init(credential: credential, api: api, appID: appID)
        self.clientID = clientID
        self.common = common
        self.broadcast = broadcast
        if let tokenEndpoint { self.tokenEndpoint = tokenEndpoint }
        self.batchSize = batchSize
        demotesWithoutRight = demotes
        targetUserType = userType
        defaultCategory = category
        self.badgeClass = badgeClass
        self.receipts = receipts
    }

    private static func api(_ section: ConfigSection, appID: String?, projectID: String?) -> API? {
        let usual = projectID == nil ? Generation.v1 : .v2
        switch section.choice("api", default: usual) {
        case .v1:
            guard let appID else {
                if !section.has("app_id") { section.missing("app_id", "the app's id: digits, from AppGallery Connect") }
                return nil
            }
            return .v1(appID: appID)
        case .v2: return project(section, projectID).map { .v2(projectID: $0) }
        case .v3:
            if section.has("client_secret") {
                section.reject(
                    "client_secret",
                    "is of no use to v3, which reaches HarmonyOS 5 and later",
                    fix: "Write service_account_file: the key file of a service account."
                )
                return nil
            }
            return project(section, projectID).map { .v3(projectID: $0) }
        }
    }

    private static func project(_ section: ConfigSection, _ projectID: String?) -> String? {
        if projectID == nil, !section.has("project_id") {
            section.missing("project_id", "the project's id: digits, from AppGallery Connect")
        }
        return projectID
    }

    private static func credential(
        _ section: ConfigSection,
        clientID: String?,
        auth: () -> (any AuthStrategy)?
    ) -> Credential? {
        if section.has("auth") {
            for key in ["client_secret", "client_id", "service_account_file"] where section.has(key) {
                section.reject(key, "stands beside auth", fix: "Keep one of the ways to sign in.")
                section.allow(key)
            }
            return auth().map { .strategy($0) }
        }
        let secret = section.secret("client_secret")
        let file = section.credentialFile("service_account_file")
        if section.has("service_account_file") {
            if section.has("client_secret") {
                let keep = "Keep one of the two ways to sign in."
                section.reject("client_secret", "stands beside service_account_file", fix: keep)
            }
            guard let file else { return nil }
            do throws(HMSServiceAccount.Mistake) {
                return .serviceAccount(try HMSServiceAccount(json: Array(file.reveal().utf8)))
            } catch {
                section.reject("service_account_file", error.problem, fix: error.fix)
                return nil
            }
        }
        guard section.has("client_secret") else {
            section.missing(
                "client_secret",
                "the app's secret from AppGallery Connect, or service_account_file for a service account"
            )
            return nil
        }
        guard let id = clientID else {
            if !section.has("app_id"), !section.has("client_id") {
                section.missing("app_id", "the app's id: digits, from AppGallery Connect")
            }
            return nil
        }
        return secret.map { .client(id: id, secret: $0) }
    }

    private static func digits(_ section: ConfigSection, _ key: String, _ meaning: String) -> String? {
        guard let text = section.string(key) else { return nil }
        guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            section.reject(key, "\"\(text)\" is not a number of 1 to 64 digits", fix: "Write \(meaning).")
            return nil
        }
        return text
    }
}

extension HMSReceiptOptions {
    /// The shortest key that is taken, in bytes.
    static let leastSecretBytes = 16

    /// Reads the `receipts` section; nil after reporting what is wrong with it.
    init?(_ section: ConfigSection) {
        let user = section.requiredString("user", "the user name set beside the callback address")
        let secret = section.secret("secret")
        if !section.has("secret") { section.missing("secret", "the secret set beside the callback address") }
        let encoding = section.choice("secret_encoding", default: Encoding.base64)
        let id = section.string("id")
        if let secret {
            let text = secret.reveal()
            switch encoding == .base64 ? Data(base64Encoded: text)?.count : text.utf8.count {
            case nil:
                section.reject(
                    "secret",
                    "is not base64",
                    fix: "Older secrets are used as they stand: write secret_encoding: raw."
                )
            case let bytes? where bytes < Self.leastSecretBytes:
                section.reject(
                    "secret",
                    "makes a key of \(bytes) bytes, too few to be safe",
                    fix: "Set one of \(Self.leastSecretBytes) bytes or more beside the callback address and here."
                )
            default: break
            }
        }
        section.finish()
        guard let user, let secret else { return nil }
        self.init(user: user, secret: secret, encoding: encoding, id: id)
    }
}
