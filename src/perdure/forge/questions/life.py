"""Questions of purposes of everyday life: study, personal tasks, household, travel, health, games, and all others."""

from perdure.forge.questions.purpose_question import Preset, PurposeQuestion

STUDY = (
    PurposeQuestion(
        "method",
        "How should it teach?",
        "How you teach: {}.",
        (
            Preset(
                "questions",
                "By questions",
                "lets me find the answer",
                "Teach by questions: let the user find the answer, and give one hint at a time.",
                "socratic",
            ),
            Preset(
                "examples",
                "By examples",
                "shows one, then I try",
                "Teach by examples: show one, then let the user solve a similar one.",
                "examples",
            ),
            Preset(
                "quiz",
                "By quizzes",
                "short tests, repeated until they stick",
                "Teach by short quizzes, and repeat later what was answered wrongly.",
                "quiz quizzes flashcards flashcard vocabulary",
            ),
        ),
    ),
    PurposeQuestion(
        "level",
        "How much do you know already?",
        "What they know already: {}.",
        (
            Preset(
                "new",
                "Nothing yet",
                "from the very beginning",
                "They begin from nothing: explain every term.",
                "beginner beginners",
            ),
            Preset("some", "The basics", "fills the gaps", "They know the basics and want to fill the gaps."),
            Preset("advanced", "A lot", "hard questions only", "They know a lot and want hard questions.", "advanced"),
        ),
        about="user",
    ),
    PurposeQuestion(
        "goal",
        "What do you study for?",
        "They study for {}.",
        (
            Preset("exam", "An exam", "a date to be ready by", "They study for an exam.", "exam exams test"),
            Preset("course", "School or university", "homework, week by week", "They study for school or university."),
            Preset("life", "Myself", "curiosity, travel, work", "They study for themselves, at their own pace."),
        ),
        about="user",
    ),
)
PERSONAL_ASSISTANT = (
    PurposeQuestion(
        "task",
        "What will you use it for most?",
        "Your main task: {}.",
        (
            Preset(
                "time",
                "Time",
                "timers, alarms and reminders",
                "Keep track of time: confirm every timer and reminder with its exact time.",
                "timer timers alarm alarms reminder reminders remind countdown stopwatch",
            ),
            Preset(
                "lists",
                "Lists and notes",
                "keeps what I must not forget",
                "Keep lists and notes: repeat what you added, and never drop an entry without being asked.",
                "list lists note notes todo todos checklist diary journal track books",
            ),
            Preset(
                "figures",
                "Converting and calculating",
                "units, currencies, sums",
                "Convert and calculate: show the result first, then how you got it.",
                "convert converter calculate calculator units",
            ),
            Preset(
                "messages",
                "Mail and calendar",
                "sorts, drafts, reminds",
                "Sort mail, draft replies and watch the calendar; never send anything without a yes.",
                "inbox email emails mail calendar appointments",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "initiative",
        "How much should it do without being asked?",
        "How much you do without being asked: {}.",
        (
            Preset("asked", "Only what I ask", "no surprises", "Do only what you are asked to."),
            Preset(
                "hints",
                "Point things out",
                "mentions what I may have missed",
                "Point out what the user may have missed, in one sentence.",
            ),
            Preset(
                "ahead",
                "Think ahead",
                "proposes the next step",
                "Propose the next step after each task, and do it once the user agrees.",
            ),
        ),
    ),
)
HOUSEHOLD = (
    PurposeQuestion(
        "task",
        "What should it take care of?",
        "What you take care of: {}.",
        (
            Preset(
                "meals",
                "Meals and shopping",
                "plans, recipes, lists",
                "Plan meals and write the shopping list, by shop section and with amounts.",
                "meal meals recipe recipes cook cooking dinner dinners lunch lunches shopping groceries grocery pasta"
                " kitchen",
            ),
            Preset(
                "chores",
                "Chores and dates",
                "who does what, and when",
                "Keep track of chores and dates: who does what, and by when.",
                "chores cleaning laundry calendar bills",
            ),
            Preset(
                "children",
                "Children",
                "homework, games, bedtime stories",
                "Help with children: ideas, homework and stories that suit their age.",
                "kids children",
            ),
            Preset(
                "garden",
                "House, plants and pets",
                "repairs, watering, feeding",
                "Take care of house, plants and pets: say what is due today, and how it is done.",
                "garden gardening plants pets dog cat repairs",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "members",
        "Who lives in the household?",
        "Their household: {}.",
        (
            Preset("one", "Just me", "one portion, one calendar", "They live alone."),
            Preset("two", "Two of us", "shared lists", "They live as a couple."),
            Preset(
                "family",
                "A family with children",
                "ages matter",
                "They live as a family with children.",
                "kids children",
            ),
            Preset("flat", "A shared flat", "fair shares", "They live in a shared flat.", "flatmates roommates"),
        ),
        about="user",
    ),
    PurposeQuestion(
        "limits",
        "What should it keep in mind?",
        "Always keep in mind: {}.",
        (
            Preset(
                "budget", "The budget", "cheap first", "Keep the budget in mind: propose the cheap way first.", "cheap"
            ),
            Preset("time", "Little time", "quick ways", "Keep in mind that there is little time: propose quick ways."),
            Preset(
                "diet",
                "What we do not eat",
                "asks once, then remembers",
                "Ask once about allergies and what is not eaten, and always keep to it.",
                "vegan vegetarian allergy allergies allergic gluten lactose intolerant halal kosher diabetes diabetic",
            ),
        ),
        is_assumption=True,
    ),
)
TRAVEL = (
    PurposeQuestion(
        "style",
        "How do you like to travel?",
        "How they like to travel: {}.",
        (
            Preset("slow", "Slowly", "few places, much time", "They like to travel slowly: few places, much time."),
            Preset("full", "See a lot", "full days", "They like full days and want to see a lot."),
            Preset("nature", "Outdoors", "hiking, water, views", "They like to be outdoors.", "hiking hike nature"),
            Preset(
                "culture",
                "Culture and food",
                "museums, markets",
                "They travel for culture and food.",
                "museum museums food",
            ),
        ),
        about="user",
    ),
    PurposeQuestion(
        "budget",
        "What may a trip cost?",
        "Their budget for a trip: {}.",
        (
            Preset(
                "low",
                "As little as possible",
                "trains, hostels, picnics",
                "They travel on a small budget.",
                "cheap budget",
            ),
            Preset("middle", "Good value", "comfort where it counts", "They want good value for their money."),
            Preset("high", "Comfort first", "short ways, good hotels", "They want comfort first.", "luxury"),
        ),
        about="user",
    ),
    PurposeQuestion(
        "output",
        "What should a plan look like?",
        "The form of a plan: {}.",
        (
            Preset(
                "days",
                "Day by day",
                "times, ways, bookings",
                "Plan day by day: times, ways, what to book, and what to do when it rains.",
                "itinerary itineraries",
            ),
            Preset(
                "options",
                "A few options",
                "I choose",
                "Offer three options with their price and their drawback, and let the user choose.",
            ),
            Preset(
                "list",
                "A checklist",
                "documents, packing, bookings",
                "Plan as a checklist with dates.",
                "packing checklist",
            ),
        ),
    ),
)
HEALTH = (
    PurposeQuestion(
        "habit",
        "Which habit is it about?",
        "The habit it is about: {}.",
        (
            Preset(
                "move",
                "Moving more",
                "running, strength, walking",
                "It is about moving more: plan small sessions, and count what was done rather than what was missed.",
                "fitness workout workouts exercise exercises running run gym yoga steps training",
            ),
            Preset(
                "sleep",
                "Sleeping better",
                "times, light, evenings",
                "It is about sleep: regular times first, everything else later.",
                "sleep sleeping",
            ),
            Preset(
                "eat",
                "Eating well",
                "simple meals, no guilt",
                "It is about eating: simple swaps, no forbidden foods, no guilt.",
                "diet nutrition calories eat eating weight",
            ),
            Preset(
                "calm",
                "Less stress",
                "breaks, breathing, an end to the day",
                "It is about stress: short breaks that fit into a day, and an evening that ends.",
                "stress meditation meditate calm",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "push",
        "How should it motivate you?",
        "How you motivate: {}.",
        (
            Preset(
                "gentle",
                "Gently",
                "praises, never blames",
                "Motivate gently: praise what was done, never blame.",
                "gentle",
            ),
            Preset(
                "firm",
                "Firmly",
                "reminds me of what I said",
                "Motivate firmly: remind the user of what they said.",
                "strict firm",
            ),
            Preset(
                "facts", "With numbers", "progress over weeks", "Motivate with numbers: show the progress over weeks."
            ),
        ),
    ),
    PurposeQuestion(
        "start",
        "Where do you stand now?",
        "Where they stand now: {}.",
        (
            Preset(
                "zero",
                "At the beginning",
                "very small steps",
                "They are at the beginning: very small steps.",
                "beginner",
            ),
            Preset(
                "again", "I stopped, and begin again", "what worked before", "They have done it before and begin again."
            ),
            Preset("going", "I want to keep it up", "variety and goals", "They do it already and want to keep it up."),
        ),
        about="user",
    ),
)
GAMES = (
    PurposeQuestion(
        "kind",
        "What do you play?",
        "What is played: {}.",
        (
            Preset(
                "rpg",
                "Role-playing",
                "a world, characters, choices",
                "You lead role-playing games: describe the scene, offer real choices, and let them have consequences.",
                "rpg dungeon dungeons dnd roleplay campaign quest quests",
            ),
            Preset(
                "board",
                "Chess and board games",
                "plays, and explains moves",
                "You play board games: keep the position exactly, and explain a move when asked.",
                "chess boardgame boardgames",
            ),
            Preset(
                "quiz",
                "Quizzes and riddles",
                "questions at the right level",
                "You ask quiz questions and riddles, one at a time, and keep the score.",
                "quiz trivia riddle riddles puzzle puzzles",
            ),
            Preset(
                "video",
                "Video games",
                "tips, builds, no spoilers",
                "You give tips for video games, from a hint to the whole solution, and never spoil a story unasked.",
                "video console",
            ),
        ),
        is_assumption=True,
    ),
    PurposeQuestion(
        "players",
        "Who plays?",
        "Who plays: {}.",
        (
            Preset("me", "Just me", "against it, or with it", "They play alone with you."),
            Preset(
                "friends",
                "A group of friends",
                "everyone gets a turn",
                "They play with a group of friends.",
                "friends group",
            ),
            Preset("children", "Children", "short rounds, nothing frightening", "Children play.", "children kids"),
        ),
        about="user",
    ),
    PurposeQuestion(
        "challenge",
        "How hard should it be?",
        "How hard it should be: {}.",
        (
            Preset("easy", "Relaxed", "winning is easy", "Keep it relaxed: winning is easy."),
            Preset(
                "fair", "A fair challenge", "grows with the player", "Be a fair challenge that grows with the player."
            ),
            Preset("hard", "Hard", "no gifts", "Make it hard: no gifts, no hints unless asked.", "hard difficult"),
        ),
    ),
)
OTHER = (
    PurposeQuestion(
        "answer",
        "What should a good answer be like?",
        "What a good answer is like: {}.",
        (
            Preset("short", "Short", "a few sentences, then stop", "Answer in a few sentences, then stop."),
            Preset(
                "steps", "In steps", "one after the other, each checked", "Answer in steps that can be done one by one."
            ),
            Preset("talk", "A conversation", "asks back before it advises", "Ask back before you advise."),
        ),
    ),
    PurposeQuestion(
        "users",
        "Who will use it?",
        "Who uses you: {}.",
        (
            Preset("me", "Only me", "it may learn my ways", "They use you alone."),
            Preset("close", "People I know", "family, friends, colleagues", "They share you with people they know."),
            Preset("public", "Anyone", "explains itself", "Anyone may use you, also people who know nothing of it."),
        ),
        about="user",
    ),
)
