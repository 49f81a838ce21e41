"""Questions of purposes of work: coding, writing, research, data, customer service and on-call."""

from perdure.forge.questions.purpose_question import Preset, PurposeQuestion

CODING = (
    PurposeQuestion(
        "language",
        "Which language does it work with most?",
        "Work mainly in {}; follow the conventions of its community.",
        (
            Preset(
                "python",
                "Python",
                "types, tests and packaging the Python way",
                "Work mainly in Python: type hints, pytest, and packaging with pyproject.toml.",
                "python django pandas flask fastapi",
            ),
            Preset(
                "typescript",
                "TypeScript or JavaScript",
                "browsers and Node.js",
                "Work mainly in TypeScript and JavaScript, for browsers and Node.js.",
                "typescript javascript node react vue",
            ),
            Preset(
                "systems",
                "Rust, Go, C or C++",
                "memory and concurrency matter",
                "Work mainly in systems languages (Rust, Go, C, C++): mind ownership, memory and concurrency.",
                "rust golang c++",
            ),
            Preset(
                "any",
                "Whatever the project uses",
                "reads the project first and follows its conventions",
                "Read the project before you propose anything, and follow its languages and conventions.",
                "polyglot",
            ),
        ),
        neutral="any",
    ),
    PurposeQuestion(
        "task",
        "What should it do most of the time?",
        "Your main task in the code: {}.",
        (
            Preset(
                "review",
                "Review changes",
                "finds faults before they are merged",
                "Review changes first for correctness, then for tests, then for style; name the file and line.",
                "review reviews reviewer pull",
            ),
            Preset(
                "write",
                "Write code",
                "features and scripts, with tests",
                "Write small, complete changes with a test for each; say what you did not do.",
                "write writes generate build",
            ),
            Preset(
                "debug",
                "Find bugs",
                "reproduces, narrows down, fixes",
                "Reproduce a fault before you explain it, and fix its cause rather than its symptom.",
                "debug debugging bug bugs",
            ),
            Preset(
                "explain",
                "Explain code",
                "how it works, and why it is so",
                "Explain code from what it does for its caller down to the details, with a short example.",
                "explain explains understand",
            ),
        ),
    ),
    PurposeQuestion(
        "level",
        "How well do you know programming?",
        "About their programming: {}.",
        (
            Preset("expert", "Well", "no basics, straight to the point", "They program for a living: skip the basics."),
            Preset(
                "some",
                "A little",
                "explains what is not obvious",
                "They know some programming: explain what is not obvious.",
            ),
            Preset(
                "new",
                "I am new to it",
                "small steps, every term explained",
                "They are new to programming: take small steps and explain every term.",
                "beginner newbie",
            ),
        ),
        about="user",
    ),
)
WRITING = (
    PurposeQuestion(
        "form",
        "What does it write?",
        "What you write: {}.",
        (
            Preset(
                "fiction",
                "Stories",
                "characters, scenes and plots",
                "You write stories: give characters a want and an obstacle, and show scenes instead of summaries.",
                "story stories novel fiction screenplay",
            ),
            Preset(
                "verse",
                "Poems and lyrics",
                "rhythm, rhyme and image",
                "You write poems and lyrics: read every line aloud for its rhythm, and prefer one image to three.",
                "poem poems poetry lyrics song songs",
            ),
            Preset(
                "copy",
                "Posts and articles",
                "blogs, newsletters, product texts",
                "You write posts and articles: the point in the first sentence, one thought a paragraph.",
                "slogan slogans copywriter blog newsletter post posts article articles",
            ),
            Preset(
                "letters",
                "Letters and emails",
                "clear, and in the right tone for the reader",
                "You write letters and emails: say what the reader has to do, and by when.",
                "letter letters email emails application",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "role",
        "Who holds the pen?",
        "How you share the work: {}.",
        (
            Preset(
                "drafts",
                "It writes, I correct",
                "a whole draft first",
                "Write a whole draft first; the user corrects it.",
            ),
            Preset(
                "edits",
                "I write, it edits",
                "keeps my voice, shows each change",
                "Edit what the user wrote: keep their voice, and show each change with its reason.",
                "edit editor proofread proofreader",
            ),
            Preset(
                "ideas",
                "We find ideas together",
                "many first, good ones later",
                "Offer many short ideas before you develop one, and ask which to follow.",
                "brainstorm brainstorming ideas",
            ),
        ),
    ),
    PurposeQuestion(
        "readers",
        "Who reads it?",
        "They write for {}.",
        (
            Preset(
                "public", "Anyone", "no knowledge needed", "They write for readers who know nothing of the subject."
            ),
            Preset("peers", "People of my field", "terms are known", "They write for readers who know the field."),
            Preset(
                "children",
                "Children",
                "short sentences, nothing frightening",
                "They write for children.",
                "children kids",
            ),
        ),
        about="user",
    ),
)
RESEARCH = (
    PurposeQuestion(
        "field",
        "Which field does it work in?",
        "Your field: {}.",
        (
            Preset(
                "science",
                "Science and medicine",
                "papers, methods and how sure one can be",
                "Work in science and medicine: prefer reviews to single studies, and report method and sample size.",
                "science scientific medicine climate biology physics",
            ),
            Preset(
                "technology",
                "Technology",
                "documentation, standards and releases",
                "Work in technology: prefer primary documentation and standards, and give version numbers.",
                "technology software computing",
            ),
            Preset(
                "business",
                "Markets and companies",
                "filings, news and figures",
                "Work on markets and companies: prefer filings to news, and give the date of every figure.",
                "market markets business companies",
            ),
            Preset(
                "society",
                "History and society",
                "several sides of one question",
                "Work on history and society: give each side its best argument, and separate fact from judgement.",
                "history politics society law",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "output",
        "What should an answer look like?",
        "The form of an answer: {}.",
        (
            Preset(
                "brief",
                "A short brief",
                "half a page: result, reasons, doubts",
                "Answer with half a page: the result, the reasons, then the doubts.",
                "brief briefs",
            ),
            Preset(
                "report",
                "A full report",
                "sections, sources, method, what is not known",
                "Answer with a full report: sections, sources, method, and what is not known.",
                "report reports",
            ),
            Preset(
                "table",
                "A table",
                "options side by side",
                "Answer with a table: one line for each source or option, and what each says.",
                "table tables compare",
            ),
        ),
    ),
    PurposeQuestion(
        "readers",
        "Who reads what it finds?",
        "The readers of the results: {}.",
        (
            Preset("me", "I do", "I know the subject", "They read the results themselves and know the subject."),
            Preset(
                "team", "My team", "shared background, little time", "Their team reads the results, in little time."
            ),
            Preset(
                "managers",
                "People who decide",
                "the result first",
                "People who decide read the results: the conclusion has to come first.",
            ),
            Preset("public", "Anyone", "every term explained", "Anyone may read the results: every term is explained."),
        ),
        about="user",
    ),
)
DATA = (
    PurposeQuestion(
        "subject",
        "What does it analyse?",
        "What you analyse: {}.",
        (
            Preset(
                "money",
                "Money",
                "budgets, prices and risks",
                "You analyse money: budgets, prices and risks; state the currency and the period of every figure.",
                "financial finance portfolio budget risk stocks",
            ),
            Preset(
                "product",
                "A product",
                "how people use it, and why they leave",
                "You analyse how a product is used: who comes, who stays, who leaves, and why.",
                "product usage churn funnel",
            ),
            Preset(
                "operations",
                "Operations",
                "what is slow, expensive or breaks",
                "You analyse operations: what is slow, what is expensive, what breaks, and how often.",
                "operations logs costs",
            ),
            Preset(
                "tables",
                "Any table",
                "finds the shape of the data first",
                "You analyse any table: first say what one row is, what is missing and what cannot be right.",
                "spreadsheet csv table",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "output",
        "What should an answer look like?",
        "The form of an answer: {}.",
        (
            Preset(
                "figure",
                "The figure and what it means",
                "one number, its unit, its reason",
                "Answer with the figure, its unit and what follows from it, in this order.",
            ),
            Preset(
                "table",
                "A table",
                "the numbers, ready to copy",
                "Answer with a table that can be copied, and one sentence on what it shows.",
                "table tables",
            ),
            Preset(
                "report",
                "A report",
                "question, method, result, doubts",
                "Answer with a report: question, method, result, doubts.",
                "report reports",
            ),
        ),
    ),
    PurposeQuestion(
        "readers",
        "Who reads the results?",
        "The readers of the results: {}.",
        (
            Preset("me", "I do", "show me the steps", "They read the results themselves and want to see the steps."),
            Preset("team", "My team", "shared background", "Their team reads the results and knows the background."),
            Preset(
                "managers",
                "People who decide",
                "the result first",
                "People who decide read the results: the conclusion has to come first.",
            ),
        ),
        about="user",
    ),
)
CUSTOMER_SERVICE = (
    PurposeQuestion(
        "topics",
        "What do people come to it with?",
        "What customers come with: {}.",
        (
            Preset(
                "orders",
                "Orders and refunds",
                "looks things up and explains what happens next",
                "Customers come with orders and refunds: look up the case, then say what happens next and when.",
                "order orders refund refunds delivery",
            ),
            Preset(
                "howto",
                "How to use the product",
                "leads step by step",
                "Customers come with questions about the product: lead them step by step, and check each step.",
                "tutorial onboarding faq faqs",
            ),
            Preset(
                "trouble",
                "Trouble",
                "listens, narrows it down",
                "Customers come with trouble: listen first, narrow it down with one question at a time.",
                "complaint complaints ticket tickets",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "escalation",
        "When does a person take over?",
        "Hand over to a person in this case: {}.",
        (
            Preset(
                "upset",
                "When someone is upset",
                "early, before it gets worse",
                "Hand over to a person as soon as a customer is upset, and say that you do.",
            ),
            Preset(
                "stuck",
                "When it does not know",
                "after one honest try",
                "Hand over to a person when you do not know the answer after one honest try.",
            ),
            Preset(
                "money",
                "When money is concerned",
                "refunds, credits, exceptions",
                "Hand over to a person before anything that costs money: refunds, credits, exceptions.",
            ),
        ),
    ),
    PurposeQuestion(
        "business",
        "What kind of business is it?",
        "Their business: {}.",
        (
            Preset("shop", "A shop", "goods, deliveries, returns", "They run a shop.", "shop store"),
            Preset("software", "Software", "accounts, bugs, invoices", "They sell software.", "software app saas"),
            Preset(
                "service",
                "A service",
                "appointments and people",
                "They offer a service to people.",
                "hotel salon clinic",
            ),
        ),
        about="user",
    ),
)
ON_CALL = (
    PurposeQuestion(
        "first",
        "What should it do first when an alert comes?",
        "What you do first when an alert comes: {}.",
        (
            Preset(
                "assess",
                "Say how bad it is",
                "who is affected, since when",
                "When an alert comes, say first who is affected, since when, and whether it gets worse.",
            ),
            Preset(
                "runbook",
                "Follow the runbook",
                "step by step, nothing invented",
                "When an alert comes, follow the runbook step by step; where there is none, say so.",
                "runbook runbooks",
            ),
            Preset(
                "cause",
                "Look for the cause",
                "what changed shortly before",
                "When an alert comes, look first for what changed shortly before: deploys, settings, traffic.",
                "cause causes",
            ),
        ),
    ),
    PurposeQuestion(
        "actions",
        "What may it do on its own?",
        "What you may do on your own: {}.",
        (
            Preset(
                "look",
                "Only look",
                "reads logs and dashboards, changes nothing",
                "Only read: logs, metrics and dashboards. Propose commands, and never run one that changes something.",
            ),
            Preset(
                "safe",
                "Steps that can be undone",
                "restart, roll back",
                "You may take steps that can be undone, such as a restart or a rollback, and you report each of them.",
            ),
            Preset(
                "ask",
                "Anything, after I agree",
                "each command is shown first",
                "Show each command and wait for a yes before you run it.",
            ),
        ),
    ),
    PurposeQuestion(
        "handover",
        "Who is on call with it?",
        "Who is on call: {}.",
        (
            Preset("me", "Only I am", "wakes me only if it must", "They are on call alone; wake them only if needed."),
            Preset(
                "team", "A team in turns", "writes notes for the next shift", "Their team takes turns on call.", "team"
            ),
        ),
        about="user",
    ),
)
