public import ChaparCore

/// The options of an Altcraft resource.
///
/// The factory in `AltcraftPlugin.swift` reads it from a section of the configuration and checks it there; code sets it
/// by hand. ``AltcraftAuth`` has the credentials of devices.
public struct AltcraftOptions: Sendable {
    /// The change of a device's subscription when the registry loses the device.
    @nonexhaustive
    public enum Removal: String, Sendable, CaseIterable {
        /// No request is sent.
        case nothing
        /// It is suspended: it gets no more messages, and the profile shows no unsubscription.
        case suspend
        /// It is unsubscribed, which the profile shows.
        case unsubscribe
    }

    /// When an operation is tried again.
    @nonexhaustive
    public enum Schedule: String, Sendable, CaseIterable {
        /// As the SDK: after 1, 5.5, 30.25, 166.4, 915.1 and 5032.8 seconds, then with every sweep.
        case sdk
        /// As with other platforms: the gateway's pauses, and the pause that the platform asks for.
        case gateway
    }

    /// Where the resource listens: the pixel host of the account.
    public var base: HTTPBaseURL
    /// The connection's options; the timeout is 60 s by default, as in the SDK.
    public var common: CommonBackendOptions
    /// The app's identity in each subscription, unless the device has its own `app_id`, `app_iid`, `app_version`.
    public var appInfo: AppInfo?
    /// The order of token services.
    ///
    /// A subscription is made with the token of the first service that the device has a token of.
    public var providerPriority: [TokenService]
    /// Whether a change waits for Altcraft's processing unless the caller says otherwise.
    public var sync = true
    /// The numbering of events.
    public var eventCodes = AltcraftEventCodes.seed
    /// When an operation is tried again.
    public var schedule = Schedule.sdk
    /// The most attempts of an operation.
    public var maximumAttempts = 16
    /// The pause between attempts after the schedule's last one.
    public var sweep = Duration.seconds(10_800)
    /// The statuses of refusals that are retried nevertheless: 408, 429 or both.
    ///
    /// The SDK retries neither.
    public var alsoRetried: Set<Int> = []
    /// The change of the subscription of a device that is removed.
    public var removal = Removal.suspend
    /// Whether tags are written into the profile; they must be fields of the database.
    public var updatesProfiles = false
    /// The pixel for events of the app's own whose options name none.
    public var pixel: String?
    /// The campaign that sends messages; nil sends none.
    public var campaign: AltcraftCampaignOptions?

    /// Makes options; nothing is checked here.
    public init(
        base: HTTPBaseURL,
        common: CommonBackendOptions = CommonBackendOptions(timeout: .seconds(60)),
        appInfo: AppInfo? = nil,
        providerPriority: [TokenService] = AltcraftProviders.defaultOrder
    ) {
        self.base = base
        self.common = common
        self.appInfo = appInfo
        self.providerPriority = providerPriority
    }

    /// The pauses of the SDK: 5.5 to the power of 0 to 5 seconds.
    package static let sdkDelays: [Duration] = [
        .seconds(1), .milliseconds(5_500), .milliseconds(30_250), .milliseconds(166_375), .milliseconds(915_063),
        .milliseconds(5_032_844),
    ]

    /// When an operation is tried again.
    public var operationPolicy: RetrySchedule {
        switch schedule {
        case .sdk:
            RetrySchedule(
                delays: Self.sdkDelays,
                sweep: sweep,
                maximumAttempts: maximumAttempts,
                jitter: 0.1,
                honoursRetryAfter: false
            )
        case .gateway:
            RetrySchedule(
                delays: RetrySchedule.standard.delays,
                sweep: RetrySchedule.standard.sweep,
                maximumAttempts: maximumAttempts,
                jitter: RetrySchedule.standard.jitter
            )
        }
    }
}

/// The trigger campaign of the platform that sends messages; its template takes the message's texts.
///
/// The mobile endpoints cannot send. Source: Altcraft's developer guide, "Trigger launch (API call)" and "Profile
/// import + trigger campaign launch", read 2026-11.
public struct AltcraftCampaignOptions: Sendable {
    /// The call that starts the campaign.
    @nonexhaustive
    public enum Call: String, Sendable, CaseIterable {
        /// For a profile that exists; nothing is imported.
        case start
        /// Imports the profile first: an unknown user becomes a profile of the campaign's database.
        case importAndStart = "import_and_start"
    }

    /// How a profile is found by the gateway's user.
    @nonexhaustive
    public enum Matching: String, Sendable, CaseIterable {
        /// By an address in the profile or its subscriptions.
        case email
        /// By the profile's own address.
        case emailProfile = "email_profile"
        /// By a phone number in the profile or its subscriptions.
        case phone
        /// By the profile's id.
        case profileID = "profile_id"
        /// By a field of the database.
        case custom

        /// The request's parameter that holds the identifier; nil for `custom`, which has two.
        var parameter: String? {
            switch self {
            case .email, .emailProfile: "email"
            case .phone: "phone"
            case .profileID: "profile_id"
            case .custom: nil
            }
        }
    }

    /// Where the platform listens.
    public var base: HTTPBaseURL
    /// The API token of the account.
    public var apiToken: Secret
    /// The campaign.
    public var triggerID: Int64
    /// The call that starts the campaign.
    public var call: Call
    /// How a profile is found by the gateway's user.
    public var matching: Matching
    /// The field that holds the user, for ``Matching/custom``.
    public var fieldName: String?
    /// The resource whose subscriptions are searched by address or phone number; nil searches all.
    public var resourceID: Int64?
    /// The database that an import goes to, if the campaign names none.
    ///
    /// Only ``Call/importAndStart`` sends it.
    public var databaseID: Int64?

    /// Makes options.
    public init(
        base: HTTPBaseURL,
        apiToken: Secret,
        triggerID: Int64,
        call: Call = .start,
        matching: Matching = .profileID,
        fieldName: String? = nil,
        resourceID: Int64? = nil,
        databaseID: Int64? = nil
    ) {
        self.base = base
        self.apiToken = apiToken
        self.triggerID = triggerID
        self.call = call
        self.matching = matching
        self.fieldName = fieldName
        self.resourceID = resourceID
        self.databaseID = databaseID
    }
}
