internal import ChaparDelivery
internal import ChaparAPI
internal import Logging

extension Handlers {
    /// Makes the endpoints of a gateway; those that accept notifications are passed in, as the fast path shares them.
    init(
        notifications: NotificationsAPI,
        batches: BatchAPI,
        state: GatewayState,
        api: APIState,
        snapshots: APISnapshots,
        workers: any WorkerObserver,
        outbox: OutboxRelay?,
        webhooks: WebhookRelay?,
        metrics: GatewayMetrics,
        admission: Admission,
        peers: Peers,
        build: BuildInfo,
        logger: Logger
    ) {
        let endpoint = SyncEndpoint(state: state, admission: admission)
        self.init(
            notifications: notifications,
            batches: batches,
            statuses: StatusAPI(endpoint: endpoint),
            searches: SearchAPI(endpoint: endpoint, workers: workers),
            deadLetters: DeadLetterAPI(endpoint: endpoint, metrics: metrics),
            campaigns: CampaignsAPI(endpoint: endpoint),
            devices: DevicesAPI(state: state, admission: admission),
            deviceBatches: DeviceBatchAPI(state: state, admission: admission),
            subscriptions: SubscriptionAPI(endpoint: endpoint),
            deviceEvents: DeviceEventsAPI(endpoint: endpoint),
            switches: UserSwitchAPI(endpoint: endpoint),
            events: EventsAPI(
                state: state,
                snapshots: snapshots,
                workers: workers,
                metrics: metrics,
                admission: admission,
                build: build
            ),
            operators: OperatorAPI(
                state: state,
                workers: workers,
                metrics: metrics,
                admission: admission,
                build: build
            ),
            receipts: ReceiptsAPI(state: state, workers: workers, admission: admission, peers: peers, logger: logger),
            appReceipts: AppReceiptsAPI(endpoint: endpoint, metrics: metrics),
            clicks: ClicksAPI(endpoint: endpoint),
            topics: TopicsAPI(endpoint: endpoint),
            channels: ChannelsAPI(endpoint: endpoint),
            tokens: TokensAPI(endpoint: endpoint),
            messages: MessagesAPI(endpoint: endpoint),
            invalidations: InvalidationsAPI(state: state, workers: workers, admission: admission),
            goneBackends: GoneBackendsAPI(state: state, workers: workers, admission: admission),
            retries: RetryAPI(state: state, workers: workers, outbox: outbox, admission: admission),
            diagnoses: DiagnosisAPI(state: state, admission: admission),
            keys: KeysAPI(state: state, uses: api.keyUses),
            series: SeriesAPI(state: state, metrics: metrics),
            dashboard: DashboardAPI(
                state: state,
                access: api.dashboard,
                admission: admission,
                peers: peers,
                logger: logger
            ),
            segments: SegmentsAPI(endpoint: endpoint),
            audiences: AudiencesAPI(endpoint: endpoint),
            erasures: UserErasureAPI(state: state, erasures: api.erasures, logger: logger),
            webhooks: WebhooksAPI(endpoint: endpoint, relay: webhooks)
        )
    }
}
