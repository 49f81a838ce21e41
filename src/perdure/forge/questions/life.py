"""The questions of bots for everyday life: study, everyday tasks, household, travel, health, games, and all else."""

from perdure.forge.questions.own import OwnQuestion, Pick

STUDY = (
    OwnQuestion(
        "method",
        "How should it teach?",
        "How you teach: {}.",
        (
            Pick(
                *("questions", "By questions", "lets me find the answer"),
                "Teach by questions: let the user find the answer, and give one hint at a time.",
                "socratic",
            ),
            Pick(
                *("examples", "By examples", "shows one, then I try"),
                "Teach by examples: show one, then let the user solve a similar one.",
                "examples",
            ),
            Pick(
                *("quiz", "By quizzes", "short tests, repeated until they stick"),
                "Teach by short quizzes, and repeat later what was answered wrongly.",
                "quiz quizzes flashcards flashcard vocabulary",
            ),
        ),
    ),
    OwnQuestion(
        "level",
        "How much do you know already?",
        "What they know already: {}.",
        (
            Pick(
                *("new", "Nothing yet", "from the very beginning"),
                "They begin from nothing: explain every term.",
                "beginner beginners",
            ),
            Pick("some", "The basics", "fills the gaps", "They know the basics and want to fill the gaps."),
            Pick("advanced", "A lot", "hard questions only", "They know a lot and want hard questions.", "advanced"),
        ),
        about="user",
    ),
    OwnQuestion(
        "goal",
        "What do you study for?",
        "They study for {}.",
        (
            Pick("exam", "An exam", "a date to be ready by", "They study for an exam.", "exam exams test"),
            Pick("course", "School or university", "homework, week by week", "They study for school or university."),
            Pick("life", "Myself", "curiosity, travel, work", "They study for themselves, at their own pace."),
        ),
        about="user",
    ),
)
PERSONAL_ASSISTANT = (
    OwnQuestion(
        "task",
        "What will you use it for most?",
        "Your main task: {}.",
        (
            Pick(
                *("time", "Time", "timers, alarms and reminders"),
                "Keep track of time: confirm every timer and reminder with its exact time.",
                "timer timers alarm alarms reminder reminders remind countdown stopwatch",
            ),
            Pick(
                *("lists", "Lists and notes", "keeps what I must not forget"),
                "Keep lists and notes: repeat what you added, and never drop an entry without being asked.",
                "list lists note notes todo todos checklist",
            ),
            Pick(
                *("figures", "Converting and calculating", "units, currencies, sums"),
                "Convert and calculate: show the result first, then how you got it.",
                "convert converter calculate calculator units",
            ),
            Pick(
                *("messages", "Mail and calendar", "sorts, drafts, reminds"),
                "Sort mail, draft replies and watch the calendar; never send anything without a yes.",
                "inbox email emails mail calendar appointments",
            ),
        ),
        is_assumption=True,
    ),
    OwnQuestion(
        "initiative",
        "How much should it do without being asked?",
        "How much you do without being asked: {}.",
        (
            Pick("asked", "Only what I ask", "no surprises", "Do only what you are asked to."),
            Pick(
                *("hints", "Point things out", "mentions what I may have missed"),
                "Point out what the user may have missed, in one sentence.",
            ),
            Pick(
                *("ahead", "Think ahead", "proposes the next step"),
                "Propose the next step after each task, and do it once the user agrees.",
            ),
        ),
    ),
)
HOUSEHOLD = (
    OwnQuestion(
        "task",
        "What should it take care of?",
        "What you take care of: {}.",
        (
            Pick(
                *("meals", "Meals and shopping", "plans, recipes, lists"),
                "Plan meals and write the shopping list, by shop section and with amounts.",
                "meal meals recipe recipes cook cooking dinner shopping groceries grocery pasta kitchen",
            ),
            Pick(
                *("chores", "Chores and dates", "who does what, and when"),
                "Keep track of chores and dates: who does what, and by when.",
                "chores cleaning laundry calendar bills",
            ),
            Pick(
                *("children", "Children", "homework, games, bedtime stories"),
                "Help with children: ideas, homework and stories that suit their age.",
                "kids children",
            ),
            Pick(
                *("garden", "House, plants and pets", "repairs, watering, feeding"),
                "Take care of house, plants and pets: say what is due today, and how it is done.",
                "garden gardening plants pets dog cat repairs",
            ),
        ),
        is_assumption=True,
    ),
    OwnQuestion(
        "members",
        "Who lives in the household?",
        "Their household: {}.",
        (
            Pick("one", "Just me", "one portion, one calendar", "They live alone."),
            Pick("two", "Two of us", "shared lists", "They live as a couple."),
            Pick(
                *("family", "A family with children", "ages matter"),
                "They live as a family with children.",
                "kids children",
            ),
            Pick("flat", "A shared flat", "fair shares", "They live in a shared flat.", "flatmates roommates"),
        ),
        about="user",
    ),
    OwnQuestion(
        "limits",
        "What should it keep in mind?",
        "Always keep in mind: {}.",
        (
            Pick(
                "budget", "The budget", "cheap first", "Keep the budget in mind: propose the cheap way first.", "cheap"
            ),
            Pick("time", "Little time", "quick ways", "Keep in mind that there is little time: propose quick ways."),
            Pick(
                *("diet", "What we do not eat", "asks once, then remembers"),
                "Ask once about allergies and what is not eaten, and always keep to it.",
                "vegan vegetarian allergy allergies gluten",
            ),
        ),
        is_assumption=True,
    ),
)
TRAVEL = (
    OwnQuestion(
        "style",
        "How do you like to travel?",
        "How they like to travel: {}.",
        (
            Pick("slow", "Slowly", "few places, much time", "They like to travel slowly: few places, much time."),
            Pick("full", "See a lot", "full days", "They like full days and want to see a lot."),
            Pick("nature", "Outdoors", "hiking, water, views", "They like to be outdoors.", "hiking hike nature"),
            Pick(
                "culture",
                "Culture and food",
                "museums, markets",
                "They travel for culture and food.",
                "museum museums food",
            ),
        ),
        about="user",
    ),
    OwnQuestion(
        "budget",
        "What may a trip cost?",
        "Their budget for a trip: {}.",
        (
            Pick(
                "low",
                "As little as possible",
                "trains, hostels, picnics",
                "They travel on a small budget.",
                "cheap budget",
            ),
            Pick("middle", "Good value", "comfort where it counts", "They want good value for their money."),
            Pick("high", "Comfort first", "short ways, good hotels", "They want comfort first.", "luxury"),
        ),
        about="user",
    ),
    OwnQuestion(
        "output",
        "What should a plan look like?",
        "The form of a plan: {}.",
        (
            Pick(
                *("days", "Day by day", "times, ways, bookings"),
                "Plan day by day: times, ways, what to book, and what to do when it rains.",
                "itinerary itineraries",
            ),
            Pick(
                *("options", "A few options", "I choose"),
                "Offer three options with their price and their drawback, and let the user choose.",
            ),
            Pick(
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
    OwnQuestion(
        "habit",
        "Which habit is it about?",
        "The habit it is about: {}.",
        (
            Pick(
                *("move", "Moving more", "running, strength, walking"),
                "It is about moving more: plan small sessions, and count what was done rather than what was missed.",
                "fitness workout workouts exercise exercises running run gym yoga steps training",
            ),
            Pick(
                *("sleep", "Sleeping better", "times, light, evenings"),
                "It is about sleep: regular times first, everything else later.",
                "sleep sleeping",
            ),
            Pick(
                *("eat", "Eating well", "simple meals, no guilt"),
                "It is about eating: simple swaps, no forbidden foods, no guilt.",
                "diet nutrition calories eat eating weight",
            ),
            Pick(
                *("calm", "Less stress", "breaks, breathing, an end to the day"),
                "It is about stress: short breaks that fit into a day, and an evening that ends.",
                "stress meditation meditate calm",
            ),
        ),
        is_assumption=True,
    ),
    OwnQuestion(
        "push",
        "How should it motivate you?",
        "How you motivate: {}.",
        (
            Pick(
                "gentle",
                "Gently",
                "praises, never blames",
                "Motivate gently: praise what was done, never blame.",
                "gentle",
            ),
            Pick(
                "firm",
                "Firmly",
                "reminds me of what I said",
                "Motivate firmly: remind the user of what they said.",
                "strict firm",
            ),
            Pick(
                "facts", "With numbers", "progress over weeks", "Motivate with numbers: show the progress over weeks."
            ),
        ),
    ),
    OwnQuestion(
        "start",
        "Where do you stand now?",
        "Where they stand now: {}.",
        (
            Pick(
                "zero",
                "At the beginning",
                "very small steps",
                "They are at the beginning: very small steps.",
                "beginner",
            ),
            Pick(
                "again", "I stopped, and begin again", "what worked before", "They have done it before and begin again."
            ),
            Pick("going", "I want to keep it up", "variety and goals", "They do it already and want to keep it up."),
        ),
        about="user",
    ),
)
GAMES = (
    OwnQuestion(
        "kind",
        "What do you play?",
        "What is played: {}.",
        (
            Pick(
                *("rpg", "Role-playing", "a world, characters, choices"),
                "You lead role-playing games: describe the scene, offer real choices, and let them have consequences.",
                "rpg dungeon dungeons dnd roleplay campaign quest quests",
            ),
            Pick(
                *("board", "Chess and board games", "plays, and explains moves"),
                "You play board games: keep the position exactly, and explain a move when asked.",
                "chess boardgame boardgames",
            ),
            Pick(
                *("quiz", "Quizzes and riddles", "questions at the right level"),
                "You ask quiz questions and riddles, one at a time, and keep the score.",
                "quiz trivia riddle riddles puzzle puzzles",
            ),
            Pick(
                *("video", "Video games", "tips, builds, no spoilers"),
                "You give tips for video games, from a hint to the whole solution, and never spoil a story unasked.",
                "video console",
            ),
        ),
        is_assumption=True,
    ),
    OwnQuestion(
        "players",
        "Who plays?",
        "Who plays: {}.",
        (
            Pick("me", "Just me", "against it, or with it", "They play alone with you."),
            Pick(
                "friends",
                "A group of friends",
                "everyone gets a turn",
                "They play with a group of friends.",
                "friends group",
            ),
            Pick("children", "Children", "short rounds, nothing frightening", "Children play.", "children kids"),
        ),
        about="user",
    ),
    OwnQuestion(
        "challenge",
        "How hard should it be?",
        "How hard it should be: {}.",
        (
            Pick("easy", "Relaxed", "winning is easy", "Keep it relaxed: winning is easy."),
            Pick(
                "fair", "A fair challenge", "grows with the player", "Be a fair challenge that grows with the player."
            ),
            Pick("hard", "Hard", "no gifts", "Make it hard: no gifts, no hints unless asked.", "hard difficult"),
        ),
    ),
)
OTHER = (
    OwnQuestion(
        "answer",
        "What should a good answer be like?",
        "What a good answer is like: {}.",
        (
            Pick("short", "Short", "a few sentences, then stop", "Answer in a few sentences, then stop."),
            Pick(
                "steps", "In steps", "one after the other, each checked", "Answer in steps that can be done one by one."
            ),
            Pick("talk", "A conversation", "asks back before it advises", "Ask back before you advise."),
        ),
    ),
    OwnQuestion(
        "users",
        "Who will use it?",
        "Who uses you: {}.",
        (
            Pick("me", "Only me", "it may learn my ways", "They use you alone."),
            Pick("close", "People I know", "family, friends, colleagues", "They share you with people they know."),
            Pick("public", "Anyone", "explains itself", "Anyone may use you, also people who know nothing of it."),
        ),
        about="user",
    ),
)
