/// The abilities of a store that not every store has.
///
/// The gateway asks ``NotificationStore/abilities`` for them and never the store's type. So a store that wraps another
/// store keeps all of its abilities, also those of later versions, by passing on this one value.
public struct StoreAbilities: Sendable {
    /// The exchange with other gateways that share the store; nil where only one gateway uses it.
    public var nodes: (any NodeExchange)?
    /// The quotas that gateways share; nil where each gateway counts alone.
    public var quotas: (any QuotaLedger)?
    /// The search for a user's data, for erasures and for the encryption of stored credentials; nil where the store
    /// cannot search.
    public var traces: (any TraceStore)?
    /// The search for deliveries; nil where the store has none.
    public var search: (any SearchStore)?
    /// The endpoints of webhooks; nil where the store keeps none, so that none can be registered.
    package var webhooks: (any WebhookStore)?
    /// The campaigns; nil where the store keeps none.
    public var campaigns: (any CampaignStore)?
    /// The record of runs; nil where the store keeps none.
    package var serving: (any ServingNotes)?
    /// The audiences: segments, lists, and the walk over the registry; nil where the store has none.
    package var audiences: (any AudienceStore)?
    /// The counts over time; nil where the store keeps none.
    package var series: (any SeriesStore)?

    /// Makes a value; by default of a store without any of them.
    public init(
        nodes: (any NodeExchange)? = nil,
        quotas: (any QuotaLedger)? = nil,
        traces: (any TraceStore)? = nil,
        search: (any SearchStore)? = nil
    ) {
        self.nodes = nodes
        self.quotas = quotas
        self.traces = traces
        self.search = search
    }
}
